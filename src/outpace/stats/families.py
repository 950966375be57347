"""Several tests at once: when no correction is needed, and Holm's where one is."""

from collections.abc import Sequence as Seq


def intersection_union(p_values: Seq[float]) -> float:
    """The p-value of "all of them hold": the largest. Needs no correction (Berger 1982)."""
    if not p_values:
        raise ValueError("no tests; allowed: one or more")
    return max(p_values)


def holm(p_values: Seq[float]) -> tuple[float, ...]:
    """Adjusted p-values of "this one holds", each: any one of them below alpha is a claim, and the
    chance of even one false claim is alpha at most. Holm 1979."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = highest
    return tuple(adjusted)
