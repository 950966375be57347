"""Spans for OpenTelemetry, the optional extra `outpace[otel]`; nothing of it runs unless asked for.

stages.py   seconds of the five stages by request, from the engine's events
spans.py    a finished request as a server span and one span per stage
trace.py    a middleware that takes up the caller's trace, and the way to a collector

Stage spans are sums over a request, five of them whatever its length. A span per round would say
when each round ran, but hundreds of spans a second are a load of their own, and spans of sampled
rounds would add up to nothing; single rounds are what `--trace` and `outpace explain` are for.
"""
