"""Log-probabilities are the truth about the text: those of reading it again (teacher forcing).

The endpoint itself reads the finished text, as a prompt, and reports on it; those numbers cannot
have come from a draft or from processed logits.
"""

from typing import Any

from outpace.endpoint.client import PROMPT, Answer, Endpoint
from outpace.endpoint.verdict import Check, Unsupported, expect, same

_LONG = 40
# Logits of 16 to 32 are rounded to eighths in bf16, and a pass of one row and one of many round
# differently. What this looks for (0.0, or the value after penalties) is off by far more.
_NEAR = 0.3
_ARMS: tuple[dict[str, Any], ...] = (
    {},
    {"temperature": 0.8, "seed": 3},
    {"temperature": 0.8, "seed": 4, "top_p": 0.9, "frequency_penalty": 0.9},
)


def asked(e: Endpoint, **fields: Any) -> tuple[Answer, list[float]]:
    """An answer with log-probabilities, one for each token."""
    done = e.complete(max_tokens=_LONG, logprobs=2, return_token_ids=True, **fields)
    if done.logprobs is None:
        raise Unsupported("the answer has no logprobs")
    same(len(done.logprobs), done.n_tokens, "numbers of logprobs and of tokens")
    return done, done.logprobs


def every_token(e: Endpoint) -> str:
    for fields in _ARMS:
        _, logprobs = asked(e, **fields)
        expect(all(isinstance(x, float | int) and x <= 0 for x in logprobs),
               f"a logprob is no number up to 0: {logprobs}")  # fmt: skip
        expect(len(set(logprobs)) > 1 or len(logprobs) < 3, f"all are {logprobs[0]}")
    return "one for each token, none of them made up"


def teacher_forced(e: Endpoint) -> str:
    worst = 0.0
    for fields in _ARMS:
        done, logprobs = asked(e, **fields)
        forced = _read_again(e, done)
        gaps = [abs(a - b) for a, b in zip(logprobs, forced, strict=True)]
        at = max(range(len(gaps)), key=gaps.__getitem__)
        expect(gaps[at] <= _NEAR,
               f"{fields or 'greedy'}: token {at} was given {logprobs[at]:.4f}, reading the text "
               f"again gives {forced[at]:.4f}")  # fmt: skip
        worst = max(worst, gaps[at])
    return f"equal to reading the text again, within {worst:.2g}"


def _read_again(e: Endpoint, done: Answer) -> list[float]:
    """Log-probabilities of the answer's tokens, as those of a prompt."""
    prompt_ids = done.raw.get("prompt_token_ids")
    if prompt_ids is None:
        raise Unsupported("the endpoint gives no prompt_token_ids")
    again = e.complete(
        [*prompt_ids, *done.ids], max_tokens=1, prompt_logprobs=0, return_token_ids=True
    )  # fmt: skip
    reports = again.raw.get("prompt_logprobs")
    if not reports:
        raise Unsupported("the endpoint gives no prompt_logprobs")
    pairs = zip(done.ids, reports[len(prompt_ids) :], strict=True)
    return [float(report[str(token)]["logprob"]) for token, report in pairs]


def likeliest_first(e: Endpoint) -> str:
    done, logprobs = asked(e)
    tops = (done.raw.get("logprobs") or {}).get("top_logprobs")
    if not tops:
        raise Unsupported("no top_logprobs")
    for own, top in zip(logprobs, tops, strict=True):
        best = max(top.values())
        expect(abs(best - own) <= _NEAR, f"greedy took {own:.4f} where {best:.4f} was likelier")
    return "at temperature 0 every token is its row's likeliest"


def streamed(e: Endpoint) -> str:
    _, logprobs = asked(e)
    events = e.streamed("/v1/completions", prompt=PROMPT, max_tokens=_LONG, logprobs=2)
    pieces: list[float] = []
    for event in events:
        for choice in event["choices"]:
            pieces += (choice.get("logprobs") or {}).get("token_logprobs") or []
    same(len(logprobs), len(pieces), "numbers of logprobs, whole and streamed")
    worst = max(abs(a - b) for a, b in zip(logprobs, pieces, strict=True))
    expect(worst <= _NEAR, f"whole and streamed logprobs differ by {worst:.4f}")
    return f"{len(pieces)} values, within {worst:.2g} of the whole answer's"


def chat_shape(e: Endpoint) -> str:
    body = {
        "model": e.model, "messages": [{"role": "user", "content": "one two three one two"}],
        "temperature": 0, "max_tokens": 12, "logprobs": True, "top_logprobs": 3,
    }  # fmt: skip
    reply = e.post("/v1/chat/completions", body)
    content = e.choices(reply)[0]["logprobs"]["content"]
    same(len(content), reply.document["usage"]["completion_tokens"], "logprobs and tokens")
    for entry in content:
        same(len(entry["top_logprobs"]), 3, "numbers of alternatives")
        expect(entry["logprob"] <= 0, f"logprob {entry['logprob']}")
        expect(bytes(entry["bytes"]) is not None, "no bytes")
    return f"{len(content)} tokens with 3 alternatives each"


CHECKS = [
    Check(name="logprobs-of-every-token", run=every_token,
          promise="every token has a log-probability of its own"),
    Check(name="logprobs-are-true", run=teacher_forced,
          promise="log-probabilities are those of reading the finished text"),
    Check(name="likeliest-is-taken", run=likeliest_first,
          promise="temperature 0 takes the token its log-probabilities call likeliest"),
    Check(name="logprobs-streamed", run=streamed,
          promise="streamed and whole log-probabilities are the same"),
    Check(name="logprobs-of-chats", run=chat_shape,
          promise="chats report as many log-probabilities as tokens"),
]  # fmt: skip
