"""The oracle is shipped, since `outpace evaluate verify` walks with it; tests use the same."""

from outpace.evaluate.exact.law.chance import (
    Interval,
    Key,
    LawError,
    Oracle,
    OracleCoins,
    Run,
    Walk,
    deep_fork,
    law_of,
    worst,
)

__all__ = [
    "Interval",
    "Key",
    "LawError",
    "Oracle",
    "OracleCoins",
    "Run",
    "Walk",
    "deep_fork",
    "law_of",
    "worst",
]
