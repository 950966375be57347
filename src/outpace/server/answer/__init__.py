"""Streams of tokens become answers: text, calls and log-probabilities, whole or in chunks."""
