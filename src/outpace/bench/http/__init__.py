"""A `Client` of any OpenAI-compatible endpoint.

client.py   connections, retries, what the endpoint can tell
stream.py   requests, the events of an answer, and /metrics
"""

from outpace.bench.http.client import OverHttp
from outpace.bench.http.stream import scraped

__all__ = ["OverHttp", "scraped"]
