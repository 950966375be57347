"""A `Client` of any OpenAI-compatible endpoint.

client.py   connections, retries, what the endpoint can tell
stream.py   requests and the events of an answer
"""

from outpace.bench.http.client import OverHttp

__all__ = ["OverHttp"]
