"""What cannot be done is refused, by name, in OpenAI's shape; no client can break a server.

A field is honoured or refused. Checks that need to know whether a field was honoured are in other
files; here are the values that nobody can honour.
"""

from collections.abc import Mapping
from json import loads
from typing import Any

from outpace.endpoint.client import Endpoint, Reply
from outpace.endpoint.verdict import Check, Failed, Unsupported, expect

_IMPOSSIBLE: tuple[Mapping[str, Any], ...] = (
    {"temperature": -1}, {"temperature": "hot"}, {"top_p": 0}, {"top_p": 1.5}, {"n": 0},
    {"max_tokens": -1}, {"max_tokens": 1.5}, {"min_p": 2}, {"top_k": -7}, {"stop": [1]},
    {"repetition_penalty": 0}, {"logit_bias": {"x": 1}}, {"logprobs": -2}, {"seed": "s"},
    {"prompt": []}, {"prompt": {"a": 1}}, {"stream": "maybe"},
)  # fmt: skip
_BROKEN = ("", "{", "[]", "null", "\x00", '{"prompt": "a" "b"}', '{"prompt": "\\ud800"}',
           "[" * 100_000)  # fmt: skip


def shape(reply: Reply, statuses: tuple[int, ...] = (400, 422)) -> None:
    """A refusal that a client library can read."""
    expect(reply.status in statuses, f"status {reply.status}: {reply.error}")
    document = reply.document if isinstance(reply.document, dict) else {}
    found = document.get("error", document)
    if not isinstance(found, dict) or not found.get("message"):
        raise Failed(f"no error.message in {reply.text[:200]!r}")


def impossible(e: Endpoint) -> str:
    accepted: list[str] = []
    for fields in _IMPOSSIBLE:
        body = {"model": e.model, "prompt": "a", "max_tokens": 2, **fields}
        reply = e.post("/v1/completions", body)
        if reply.status == 200:
            accepted.append(str(dict(fields)))
        else:
            shape(reply)
    expect(not accepted, f"accepted: {', '.join(accepted)}")
    return f"{len(_IMPOSSIBLE)} impossible values refused with 400"


def broken(e: Endpoint) -> str:
    for body in _BROKEN:
        reply = e.post("/v1/chat/completions", body)
        expect(400 <= reply.status < 500, f"{body[:20]!r} gave {reply.status}: {reply.error}")
    reply = e.post("/v1/completions", '{"prompt": "a", "temperature": NaN}')
    expect(400 <= reply.status < 500, f"NaN gave {reply.status}")
    expect(e.complete(max_tokens=1).n_tokens == 1, "no answer afterwards")
    return f"{len(_BROKEN) + 1} broken bodies: each a 4xx, and the server answers on"


def unknown_model(e: Endpoint) -> str:
    reply = e.post("/v1/completions", {"model": "no-such-model", "prompt": "a", "max_tokens": 1})
    shape(reply, (404,))
    return reply.error


def unknown_path(e: Endpoint) -> str:
    for path in ("/v1/nothing", "/v1/chat/nothing"):
        expect(e.get(path).status == 404, f"{path} gave {e.get(path).status}")
    return "404"


def unknown_field(e: Endpoint) -> str:
    reply = e.post("/v1/completions",
                   {"model": e.model, "prompt": "a", "max_tokens": 1, "temprature": 1})  # fmt: skip
    if reply.status == 200:
        raise Unsupported("an unknown field (temprature) is ignored, not refused")
    shape(reply)
    expect("temprature" in reply.error, f"the refusal does not name it: {reply.error}")
    return reply.error


def suffix(e: Endpoint) -> str:
    reply = e.post("/v1/completions",
                   {"model": e.model, "prompt": "a", "max_tokens": 2, "suffix": "b"})  # fmt: skip
    if reply.status == 200:
        raise Failed("suffix was accepted; a causal model cannot honour it")
    shape(reply)
    return reply.error


def structured(e: Endpoint) -> str:
    """Honoured or refused; what comes back as JSON must be JSON."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
              "additionalProperties": False}  # fmt: skip
    said: list[str] = []
    forms: tuple[dict[str, Any], ...] = (
        {"type": "json_object"},
        {"type": "json_schema", "json_schema": {"name": "s", "schema": schema, "strict": True}},
    )
    for form in forms:
        body = {
            "model": e.model, "max_tokens": 200, "temperature": 0, "response_format": form,
            "messages": [{"role": "user", "content": 'Answer with {"a": 1} in ```json fences.'}],
        }  # fmt: skip
        reply = e.post("/v1/chat/completions", body)
        if reply.status in (400, 422):
            said.append(f"{form['type']} refused")
            continue
        choice = e.choices(reply)[0]
        if choice["finish_reason"] == "stop":
            loads(choice["message"]["content"])  # a ValueError fails the check
        said.append(f"{form['type']} honoured")
    if all("refused" in line for line in said):
        raise Unsupported("; ".join(said))
    return "; ".join(said)


CHECKS = [
    Check(name="impossible-values", run=impossible,
          promise="values that cannot be honoured are refused with a 400"),
    Check(name="broken-bodies", run=broken,
          promise="bodies that are no JSON are the caller's error"),
    Check(name="unknown-model", run=unknown_model,
          promise="a model that is not there is a 404"),
    Check(name="unknown-path", run=unknown_path, promise="a wrong path is a 404"),
    Check(name="unknown-field", run=unknown_field,
          promise="a misspelt field is named, not ignored"),
    Check(name="suffix", run=suffix, promise="suffix is not silently dropped"),
    Check(name="structured-output", run=structured,
          promise="JSON that was asked for parses, or the request is refused"),
]  # fmt: skip
