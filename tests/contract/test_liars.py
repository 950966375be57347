"""The judges are judged: a server that breaks a promise fails the check for it."""

from collections.abc import Callable
from typing import Any

import pytest
from starlette.types import ASGIApp

from contract.liars import Liar, answering, dropping, saying, writing
from outpace.endpoint.client import Endpoint
from outpace.endpoint.run import chosen, finding
from server.live import running
from server.words import worded_model


def zero_logprobs(choice: dict[str, Any]) -> None:
    found = choice.get("logprobs")
    if found:
        found["token_logprobs"] = [0.0 for _ in found.get("token_logprobs", [])]


def shifted_logprobs(choice: dict[str, Any]) -> None:
    found = choice.get("logprobs")
    if found:
        found["token_logprobs"] = [x and 1.3 * x - 0.2 for x in found.get("token_logprobs", [])]


def one_logprob(choice: dict[str, Any]) -> None:
    found = choice.get("logprobs")
    if found:
        found["token_logprobs"] = found["token_logprobs"][:1]


def longer_ids(choice: dict[str, Any]) -> None:
    if choice.get("token_ids") and choice.get("stop_reason") is not None:
        choice["token_ids"] = [*choice["token_ids"], 1]


def more_usage(document: dict[str, Any]) -> None:
    if document.get("usage"):
        document["usage"]["completion_tokens"] += 1


def never_off(body: dict[str, Any]) -> None:
    if body.get("speculation") == "off":
        body["speculation"] = "auto"


def zero_rate(document: dict[str, Any]) -> None:
    found = (document.get("metrics") or {}).get("speculative_decoding")
    if found:
        found["num_accepted_draft_tokens"] += 1


LIARS: list[tuple[str, Callable[[ASGIApp], ASGIApp]]] = [
    ("min-p-everywhere", dropping("min_p")),
    ("top-k-everywhere", dropping("top_k")),
    ("top-p-everywhere", dropping("top_p")),
    ("tiny-temperature", dropping("temperature")),
    ("bias-forbids", dropping("logit_bias")),
    ("bias-forces", dropping("logit_bias")),
    ("penalties-count", dropping("frequency_penalty")),
    ("seeds", dropping("seed")),
    ("n-answers", dropping("n")),
    ("n-answers", dropping("seed")),
    ("plain-is-the-same", dropping("seed")),
    ("stop-token", dropping("stop_token_ids")),
    ("stop-token", saying(longer_ids)),
    ("stop-string", dropping("stop")),
    ("stop-string", saying(longer_ids)),
    ("stop-string", saying(one_logprob)),
    ("max-tokens-exact", answering(more_usage)),
    ("ignore-eos", dropping("max_tokens")),
    ("min-tokens", dropping("min_tokens")),
    ("stream-is-whole", dropping("seed")),
    ("stop-held-back", dropping("stop")),
    ("logprobs-of-every-token", saying(zero_logprobs)),
    ("logprobs-are-true", saying(shifted_logprobs)),
    ("likeliest-is-taken", dropping("temperature")),
    ("request-metrics", answering(zero_rate)),
    ("counters-add-up", answering(more_usage)),
    ("no-nan", writing(r"(vllm:num_requests_running\S*) \S+", r"\1 NaN")),
    ("latency-per-token", writing(r"(vllm:inter_token_latency_seconds_count\S*) \S+", r"\1 3")),
    ("off-is-off", lambda app: Liar(app, ask=never_off)),
    ("suffix", dropping("suffix")),
    ("own-randomness", dropping("seed")),
    ("in-company", dropping("seed")),
    ("unknown-model", dropping("model")),
    ("impossible-values", dropping("temperature")),
]


@pytest.mark.parametrize(("name", "lie"), LIARS, ids=[f"{i}-{n}" for i, (n, _) in enumerate(LIARS)])
def test_a_lie_is_noticed(name: str, lie: Callable[[ASGIApp], ASGIApp]) -> None:
    (check,) = [check for check in chosen([name]) if check.name == name]
    with running(worded_model(drafter="synthetic:alpha=0.5"), behind=lie) as live:
        endpoint = Endpoint(live.url, timeout_s=90)
        found = finding(endpoint, check)
        endpoint.close()
    assert found.verdict == "fail", found


def test_the_middleware_itself_breaks_nothing() -> None:
    def honest(app: ASGIApp) -> ASGIApp:
        return Liar(app, ask=lambda _: None, say=lambda _: None)

    names = {name for name, _ in LIARS}
    with running(worded_model(drafter="synthetic:alpha=0.5"), behind=honest) as live:
        endpoint = Endpoint(live.url, timeout_s=90)
        found = [finding(endpoint, check) for check in chosen() if check.name in names]
        endpoint.close()
    assert [f for f in found if f.verdict != "pass"] == []


def test_an_endpoint_that_dies_fails_and_the_rest_is_still_reported() -> None:
    (check,) = chosen(["own-randomness"])
    with running(worded_model()) as live:
        endpoint = Endpoint(live.url, timeout_s=90)
        assert endpoint.model == "words"
    found = finding(endpoint, check)
    endpoint.close()
    assert found.verdict == "fail"
    assert "stopped answering" in found.found
