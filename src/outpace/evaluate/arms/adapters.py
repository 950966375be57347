"""What each engine calls its counters, and what it says of one request.

An adapter turns `/metrics` into the names of `arm.py`, and a response's own words on speculation
into a `Speculation`. `none` reads nothing: the arm is measured from the client alone.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from outpace.bench.client import Speculation
from outpace.evaluate.arms.arm import ACCEPTED, DRAFTED, DRAFTS, GENERATED, PROMPT

_LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{[^}]*\})? (\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """An engine's names. counters: ours -> its. ids: whether it sends token ids when asked.
    known: a metric that only this engine has."""

    name: str
    counters: Mapping[str, str]
    known: str
    ids: bool = False


ADAPTERS: dict[str, Adapter] = {
    "outpace": Adapter(
        name="outpace",
        known="outpace_up",
        ids=True,
        counters={
            GENERATED: "vllm:generation_tokens_total",
            PROMPT: "vllm:prompt_tokens_total",
            DRAFTS: "vllm:spec_decode_num_drafts_total",
            DRAFTED: "vllm:spec_decode_num_draft_tokens_total",
            ACCEPTED: "vllm:spec_decode_num_accepted_tokens_total",
        },
    ),
    "vllm": Adapter(
        name="vllm",
        known="vllm:generation_tokens_total",
        ids=True,
        counters={
            GENERATED: "vllm:generation_tokens_total",
            PROMPT: "vllm:prompt_tokens_total",
            DRAFTS: "vllm:spec_decode_num_drafts_total",
            DRAFTED: "vllm:spec_decode_num_draft_tokens_total",
            ACCEPTED: "vllm:spec_decode_num_accepted_tokens_total",
        },
    ),
    "sglang": Adapter(
        name="sglang",
        known="sglang:generation_tokens_total",
        counters={
            GENERATED: "sglang:generation_tokens_total",
            PROMPT: "sglang:prompt_tokens_total",
            DRAFTS: "sglang:spec_verify_ct_total",
            ACCEPTED: "sglang:spec_accepted_tokens_total",
        },
    ),
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


def scraped(text: str) -> dict[str, float]:
    """Prometheus' text format as metric -> value, summed over labels (engines report one each)."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        if match := _LINE.match(line):
            try:
                found[match[1]] = found.get(match[1], 0.0) + float(match[2])
            except ValueError:
                continue
    return found


def recognised(metrics: Mapping[str, float]) -> Adapter:
    """The engine whose metrics these are; `none` if nobody's."""
    for adapter in ADAPTERS.values():
        if adapter.known and adapter.known in metrics:
            return adapter
    return ADAPTERS["none"]


def counted(adapter: Adapter, metrics: Mapping[str, float]) -> dict[str, float]:
    """The counters under our names; one that was not published yet has counted nothing."""
    return {ours: metrics.get(its, 0.0) for ours, its in adapter.counters.items()}


def speculation_of(document: Mapping[str, Any], n_tokens: int) -> Speculation | None:
    """What a response, or a stream's last event, says of its guesses; None = nothing.

    Every pass gives one token of the target's own besides the guesses that were kept, so the
    passes follow from the answer's length where a server counts only those with guesses.
    """
    metrics = document.get("metrics") or {}
    said = metrics.get("speculative_decoding") if isinstance(metrics, dict) else None
    if isinstance(said, dict):
        kept, drafted = (
            _number(said, "num_accepted_draft_tokens"),
            _number(said, "num_draft_tokens"),
        )
        deepest = int(said.get("num_spec_tokens") or 0)
        by_depth = said.get("acceptance_histogram_by_draft_length") or {
            str(deepest): said.get("acceptance_histogram") or []
        }
        lengths = [
            (int(depth), n_kept, n)
            for depth, histogram in by_depth.items()
            for n_kept, n in enumerate(histogram)
            if n
        ]
        return _speculation(kept, drafted, n_tokens, lengths)
    timings = document.get("timings")
    if isinstance(timings, dict) and "draft_n" in timings:
        return _speculation(
            _number(timings, "draft_n_accepted"), _number(timings, "draft_n"), n_tokens, []
        )
    return None


def _speculation(
    kept: int, drafted: int, n_tokens: int, lengths: list[tuple[int, int, int]]
) -> Speculation:
    rounds = max(n_tokens - kept, sum(n for _, _, n in lengths), 1 if n_tokens else 0)
    plain = rounds - sum(n for _, _, n in lengths)
    if plain and lengths:
        lengths = [(0, 0, plain), *lengths]
    return Speculation(rounds=rounds, drafted=drafted, kept=kept, lengths=tuple(lengths))


def _number(document: Mapping[str, Any], key: str) -> int:
    found = document.get(key)
    return int(found) if isinstance(found, int | float) else 0
