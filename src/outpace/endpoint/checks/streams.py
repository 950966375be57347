"""A stream is the same answer in pieces: text, finish, usage; and its reader may leave."""

import time
from typing import Any

from outpace.endpoint.client import PROMPT, Endpoint
from outpace.endpoint.verdict import Check, Failed, Unsupported, expect, same

_LONG = 40
_CHAT: list[dict[str, str]] = [{"role": "user", "content": PROMPT}]


def plain_stream(e: Endpoint) -> str:
    for fields in ({}, {"temperature": 1.0, "seed": 4}):
        whole = e.complete(max_tokens=_LONG, **fields)
        events = e.streamed("/v1/completions", prompt=PROMPT, **{"max_tokens": _LONG, **fields},
                            stream_options={"include_usage": True})  # fmt: skip
        choices = [event["choices"][0] for event in events if event["choices"]]
        same(whole.text, "".join(choice["text"] for choice in choices), "whole and streamed text")
        _ends_once(choices, whole.finish)
        expect(not events[-1]["choices"], "the last event of include_usage has choices")
        usage = events[-1].get("usage") or {}
        expect(usage.get("completion_tokens") == whole.n_tokens,
               f"usage {usage}, the whole answer had {whole.n_tokens} tokens")  # fmt: skip
    return "greedy and seeded: the same text, one finish_reason, the same usage"


def _ends_once(choices: list[dict[str, Any]], finish: str | None) -> None:
    reasons = [choice.get("finish_reason") for choice in choices]
    expect(reasons[-1] == finish, f"the stream ended by {reasons[-1]!r}, the whole by {finish!r}")
    expect(not any(reasons[:-1]), f"finish_reason before the end: {reasons}")


def chat_stream(e: Endpoint) -> str:
    body = {"model": e.model, "messages": _CHAT, "temperature": 0, "max_tokens": _LONG}
    whole = e.choices(e.post("/v1/chat/completions", body))[0]
    events = e.streamed("/v1/chat/completions", messages=_CHAT, max_tokens=_LONG)
    choices = [event["choices"][0] for event in events if event["choices"]]
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    same(whole["message"]["content"], text, "whole and streamed message")
    _ends_once(choices, whole["finish_reason"])
    expect(choices[0]["delta"].get("role") == "assistant", "the first delta does not say its role")
    return f"{len(choices)} chunks, the same message of {len(text)} characters"


def stop_held_back(e: Endpoint) -> str:
    """A piece that was shown can never turn out to be part of a stop string."""
    text = e.complete(max_tokens=_LONG).text
    at = next((i for i in range(4, len(text) - 8) if "\ufffd" not in text[i : i + 8]), None)
    if at is None:
        raise Unsupported("the model's text has no eight whole characters in a row")
    stop, never = text[at : at + 8], text[at : at + 6] + "\u2603\u2603"
    events = e.streamed("/v1/completions", prompt=PROMPT, max_tokens=_LONG, stop=[stop])
    shown = "".join(event["choices"][0]["text"] for event in events if event["choices"])
    same(text[: text.index(stop)], shown, f"streamed text before the stop {stop!r}")
    events = e.streamed("/v1/completions", prompt=PROMPT, max_tokens=_LONG, stop=[never])
    shown = "".join(event["choices"][0]["text"] for event in events if event["choices"])
    same(text, shown, "streamed text with a stop string that only begins")
    return "nothing of a stop string was shown, and nothing held back was lost"


def whole_characters(e: Endpoint) -> str:
    prompt = "Emoji and accents: \U0001f600 \U0001f680 naïve café 東京 Привет, again: \U0001f600"
    fields: dict[str, Any] = {"max_tokens": _LONG, "temperature": 1.0, "seed": 9}
    whole = e.complete(prompt, **fields)
    events = e.streamed("/v1/completions", prompt=prompt, **fields)
    pieces = [event["choices"][0]["text"] for event in events if event["choices"]]
    same(whole.text, "".join(pieces), "whole and streamed text beyond ASCII")
    return f"{len(pieces)} pieces join to the whole text"


def reader_leaves(e: Endpoint) -> str:
    for path, body in (("/v1/completions", {"prompt": PROMPT}),
                       ("/v1/chat/completions", {"messages": _CHAT})):  # fmt: skip
        with e.stream(path, **body, max_tokens=2000, ignore_eos=True) as events:
            next(events)
    done = e.complete(max_tokens=2)
    expect(done.n_tokens > 0, "no answer after readers left")
    for _ in range(100):
        if _running(e) == 0:
            return "two readers left; their requests ended, others are answered"
        time.sleep(0.1)
    raise Failed("10 s after their readers left, requests are still running")


def _running(e: Endpoint) -> float:
    text = e.get("/metrics").text
    lines = [line for line in text.splitlines() if line.startswith("vllm:num_requests_running")]
    if not lines:
        raise Unsupported("/metrics has no vllm:num_requests_running")
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


CHECKS = [
    Check(name="stream-is-whole", run=plain_stream,
          promise="streamed and whole completions are one text with one usage"),
    Check(name="chat-stream-is-whole", run=chat_stream,
          promise="streamed and whole messages are one text"),
    Check(name="stop-held-back", run=stop_held_back,
          promise="a stream shows nothing it would have to take back, and loses nothing"),
    Check(name="whole-characters", run=whole_characters,
          promise="pieces are whole characters"),
    Check(name="reader-leaves", run=reader_leaves,
          promise="a reader that leaves ends its request"),
]  # fmt: skip
