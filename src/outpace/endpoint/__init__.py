"""Judging any OpenAI-compatible endpoint over HTTP: does it keep what a request asked for?

Speculation must not show in an answer. Each check sends a few requests whose right answer follows
from others (a text and the same text cut, one law and another that must coincide), so no check
needs to know the model. `checks/` has them by subject, `run.py` runs them, `verdict.py` says what
a finding is.
"""
