"""What each engine calls its counters, and what it says of one request.

An adapter turns `/metrics` into the names of `arm.py`. `none` reads nothing: the arm is measured
from the client alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from outpace.bench.client import Speculation
from outpace.evaluate.arms.arm import ACCEPTED, DRAFTED, DRAFTS, GENERATED, PROMPT


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """An engine's names. counters: ours -> its. known: a metric that only this engine has."""

    name: str
    counters: Mapping[str, str]
    known: str


# outpace counts under these names too.
_VLLM = {
    GENERATED: "vllm:generation_tokens_total",
    PROMPT: "vllm:prompt_tokens_total",
    DRAFTS: "vllm:spec_decode_num_drafts_total",
    DRAFTED: "vllm:spec_decode_num_draft_tokens_total",
    ACCEPTED: "vllm:spec_decode_num_accepted_tokens_total",
}
ADAPTERS: dict[str, Adapter] = {
    "outpace": Adapter(
        name="outpace",
        known="outpace_up",
        counters=_VLLM,
    ),
    "vllm": Adapter(
        name="vllm",
        known="vllm:generation_tokens_total",
        counters=_VLLM,
    ),
    # It counts no guesses; its acceptance length is a gauge of the last moments.
    "sglang": Adapter(
        name="sglang",
        known="sglang:generation_tokens_total",
        counters={
            GENERATED: "sglang:generation_tokens_total",
            PROMPT: "sglang:prompt_tokens_total",
        },
    ),
    # Guesses are told with each answer, under `timings`.
    "llama.cpp": Adapter(
        name="llama.cpp",
        known="llamacpp:tokens_predicted_total",
        counters={
            GENERATED: "llamacpp:tokens_predicted_total",
            PROMPT: "llamacpp:prompt_tokens_total",
        },
    ),
    "none": Adapter(name="none", known="", counters={}),
}


def recognised(metrics: Mapping[str, float]) -> Adapter:
    """The engine whose metrics these are; `none` if nobody's."""
    for adapter in ADAPTERS.values():
        if adapter.known and adapter.known in metrics:
            return adapter
    return ADAPTERS["none"]


def counted(adapter: Adapter, metrics: Mapping[str, float]) -> dict[str, float]:
    """The counters under our names; one that was not published yet has counted nothing."""
    return {ours: metrics.get(its, 0.0) for ours, its in adapter.counters.items()}


def timed_guesses(reported: Mapping[str, Any], n_tokens: int) -> Speculation | None:
    """What llama.cpp says of a request's guesses, under `timings`; None = nothing.

    Every pass gives one token of the target's own besides the guesses that were kept.
    """
    timings = reported.get("timings")
    if not isinstance(timings, Mapping) or "draft_n" not in timings:
        return None
    kept, drafted = int(timings.get("draft_n_accepted") or 0), int(timings["draft_n"])
    rounds = max(n_tokens - kept, 1 if n_tokens else 0)
    return Speculation(rounds=rounds, drafted=drafted, kept=kept, lengths=())
