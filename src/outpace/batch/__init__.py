"""Files of requests in OpenAI's batch shape, answered to files of answers, resumably.

`body` reads a request, `answer` writes one, `run` walks through the file.
"""
