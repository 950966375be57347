"""The reference ships, since `outpace evaluate verify` compares with it; tests use the same."""

from outpace.evaluate.exact.law.target import Allowed, Target, Text

__all__ = ["Allowed", "Target", "Text"]
