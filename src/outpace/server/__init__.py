"""The HTTP server: OpenAI's API over a `Service`, every field honoured or refused by name.

wire/      what clients send and get: shapes, and reading a body into them
answer/    a request into prompts and sampling, and streams of tokens into answers
metrics/   counters fed by the engine's events and by finished answers
routes/    one file per group of paths
app.py     puts them together; run.py serves them and drains at the end
"""
