"""Numbers that operators steer by: they add up, and nothing is not called zero or NaN."""

import math
import re
from itertools import pairwise
from typing import Any

from outpace.endpoint.client import Endpoint
from outpace.endpoint.verdict import Check, Failed, Unsupported, expect, same

_LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(\{[^}]*\})? (\S+)")
_DRAFTS = "vllm:spec_decode_num_drafts_total"
_DRAFTED = "vllm:spec_decode_num_draft_tokens_total"
_KEPT = "vllm:spec_decode_num_accepted_tokens_total"
_KEPT_AT = "vllm:spec_decode_num_accepted_tokens_per_pos_total"


def metrics(e: Endpoint) -> dict[tuple[str, str], float]:
    """/metrics as (name, labels) -> value."""
    reply = e.get("/metrics")
    if reply.status != 200:
        raise Unsupported(f"/metrics gave {reply.status}")
    found: dict[tuple[str, str], float] = {}
    for line in reply.text.splitlines():
        if match := _LINE.match(line):
            found[match[1], match[2] or ""] = float(match[3])
    return found


def total(values: dict[tuple[str, str], float], name: str) -> float:
    """A counter over all its labels (several engines report one each)."""
    return sum(value for (found, _), value in values.items() if found == name)


def no_nan(e: Endpoint) -> str:
    values = metrics(e)
    wrong = [name for (name, _), value in values.items() if math.isnan(value)]
    expect(not wrong, f"NaN in {wrong[:5]}")
    return f"{len(values)} values, none of them NaN"


def counters_add_up(e: Endpoint) -> str:
    before = metrics(e)
    done = e.complete(max_tokens=64, ignore_eos=True)
    after = metrics(e)
    grown = total(after, "vllm:generation_tokens_total") - total(
        before, "vllm:generation_tokens_total"
    )
    same(int(grown), done.n_tokens, "generation tokens counted and answered")
    if not any(name == _DRAFTS for name, _ in after):
        raise Unsupported("no speculative counters: no drafts yet, or no speculation")
    drafts, drafted, kept = (
        total(after, n) - total(before, n) for n in (_DRAFTS, _DRAFTED, _KEPT)
    )  # fmt: skip
    expect(0 <= kept <= drafted, f"{kept} guesses kept of {drafted}")
    expect(drafts <= drafted, f"{drafts} drafts of {drafted} guesses in all")
    at = [value for (name, _), value in sorted(after.items(), key=_by_position) if name == _KEPT_AT]
    expect(all(a >= b for a, b in pairwise(at)), f"kept by position: {at}")
    same(int(sum(at)), int(total(after, _KEPT)), "guesses kept, by position and in all")
    return f"{done.n_tokens} tokens; {drafts:g} drafts, {drafted:g} guesses, {kept:g} kept"


def _by_position(item: tuple[tuple[str, str], float]) -> int:
    match = re.search(r'position="(\d+)"', item[0][1])
    return int(match[1]) if match else -1


def of_a_request(e: Endpoint) -> str:
    done = e.complete(max_tokens=64, ignore_eos=True)
    found: dict[str, Any] = (done.metrics or {}).get("speculative_decoding") or {}
    if not found:
        raise Unsupported("responses have no metrics.speculative_decoding")
    steps, drafted = found["num_spec_steps"], found["num_draft_tokens"]
    kept, histogram = found["num_accepted_draft_tokens"], found["acceptance_histogram"]
    pairs = list(enumerate(histogram))
    same(sum(histogram), steps, "steps, and the sum of the histogram")
    same(sum(j * n for j, n in pairs), kept, "guesses kept, and those of the histogram")
    expect(kept <= drafted, f"{kept} guesses kept of {drafted}")
    if steps:
        expect(abs(found["mean_acceptance_length"] - 1 - kept / steps) < 1e-6, f"{found}")
    else:
        same(found["mean_acceptance_length"], None, "the acceptance length without a draft")
    return f"{steps} steps, {drafted} guesses, {kept} kept; the numbers agree"


def off_is_off(e: Endpoint) -> str:
    off = e.without_guesses()
    before = total(metrics(e), _DRAFTS)
    e.complete(max_tokens=48, **off)
    grown = total(metrics(e), _DRAFTS) - before
    same(int(grown), 0, "drafts of a request without speculation")
    e.complete(max_tokens=48, speculation="fixed:2", ignore_eos=True)
    return "off drafts nothing"


def latency_per_token(e: Endpoint) -> str:
    """A sample per step would call speculation slow; a sample per token does not."""
    name = "vllm:inter_token_latency_seconds_count"
    before = metrics(e)
    if not any(found == name for found, _ in before):
        raise Unsupported(f"/metrics has no {name}")
    done = e.complete(max_tokens=64, ignore_eos=True)
    after = metrics(e)
    samples = total(after, name) - total(before, name)
    kept = total(after, _KEPT) - total(before, _KEPT)
    if not kept:
        raise Unsupported("no guess was kept, so steps and tokens cannot be told apart")
    first = done.n_tokens - 1
    if samples < first - kept:
        raise Failed(f"{samples:g} samples for {first} later tokens")
    if samples <= first - kept / 2:
        raise Failed(f"{samples:g} samples for {first} later tokens: one per step, not per token")
    return f"{samples:g} samples for {first} later tokens"


def probes(e: Endpoint) -> str:
    expect(e.get("/health").status == 200, f"/health gave {e.get('/health').status}")
    reply = e.get("/ready")
    if reply.status == 404:
        return "/health is green; there is no /ready"
    expect(reply.status == 200, f"/ready gave {reply.status} after answers were given")
    return "/health and /ready are green"


CHECKS = [
    Check(name="no-nan", run=no_nan, promise="no metric is NaN"),
    Check(name="counters-add-up", run=counters_add_up,
          promise="tokens, drafts, guesses and positions add up"),
    Check(name="request-metrics", run=of_a_request,
          promise="a response's own numbers agree with each other"),
    Check(name="off-is-off", run=off_is_off,
          promise="a request without speculation drafts nothing"),
    Check(name="latency-per-token", run=latency_per_token,
          promise="inter-token latency has a sample per token, not per step"),
    Check(name="probes", run=probes, promise="health is green while it answers"),
]  # fmt: skip
