"""What one answer says of its own speculation: `metrics` of a response.

`speculative_decoding` has the names and meanings of vLLM's per-request metrics, so that load tools
that know those read ours; `outpace` beside it has what they lack. Without a draft there is nothing
to say: the counts are 0 and the rates null, never 0 or NaN.
"""

from typing import Any

from outpace.completion import Meter, promise
from outpace.engine.stream import Stream
from outpace.server.settings import MetricsLevel


def metrics_of(stream: Stream, level: MetricsLevel) -> dict[str, Any] | None:
    """The `metrics` object of a finished answer; None at level none."""
    if level == "none":
        return None
    meter = stream.meter
    own: dict[str, Any] = {
        "rounds": meter.rounds,
        "rule": meter.rule(),
        "seed": str(stream.sequence.seed),  # beyond what a JavaScript number can hold
        "promise": promise(
            same_text=stream.sequence.sampling.same_text,
            row_invariant=stream.sequence.traits.row_invariant,
        ),
    }
    if level == "detailed":
        own["seconds"] = {"prefill": meter.prefill_s, "decode": meter.decode_s, **meter.stages}
    return {"speculative_decoding": _speculation(meter, level), "outpace": own}


def _speculation(meter: Meter, level: MetricsLevel) -> dict[str, Any]:
    drafted = {pair: rounds for pair, rounds in meter.lengths.items() if pair[0] > 0}
    steps = sum(drafted.values())
    deepest = max((depth for depth, _ in drafted), default=0)
    kept = sum(n_kept * rounds for (_, n_kept), rounds in drafted.items())
    found: dict[str, Any] = {
        "mean_acceptance_length": 1 + kept / steps if steps else None,
        "draft_acceptance_rate": kept / meter.drafted if meter.drafted else None,
        "acceptance_histogram": _histogram(drafted, deepest),
        "num_spec_steps": steps,
        "num_accepted_draft_tokens": kept,
        "num_draft_tokens": meter.drafted,
        "num_spec_tokens": deepest or None,
    }
    if level == "detailed":
        found["acceptance_histogram_by_draft_length"] = {
            str(depth): _histogram({p: n for p, n in drafted.items() if p[0] == depth}, depth)
            for depth in sorted({depth for depth, _ in drafted})
        }
    return found


def _histogram(rounds_by_pair: dict[tuple[int, int], int], deepest: int) -> list[int]:
    """Rounds by how many guesses were kept, 0 to `deepest`."""
    counts = [0] * (deepest + 1) if rounds_by_pair else []
    for (_, n_kept), rounds in rounds_by_pair.items():
        counts[n_kept] += rounds
    return counts
