"""Where a text ends: text, ids, log-probabilities and usage end at the same token.

A block of guesses may run past an end. The ends here are put on purpose into text that a copying
drafter guesses, at every position in turn.
"""

from typing import Any

from outpace.endpoint.client import PROMPT, Answer, Endpoint
from outpace.endpoint.verdict import Check, Unsupported, expect, same

_LONG = 40
# Beyond this, filling the context would take minutes on a small machine.
_LONGEST_FILLED_TOKENS = 8192


def stop_token(e: Endpoint) -> str:
    whole = e.complete(max_tokens=_LONG, return_token_ids=True).ids
    tried = list(dict.fromkeys(whole))[:12]
    for token in tried:
        done = e.complete(max_tokens=_LONG, return_token_ids=True, stop_token_ids=[token])
        n = whole.index(token) + 1
        same(whole[:n], done.ids, f"ids up to stop token {token}")
        expect(done.n_tokens == n, f"usage says {done.n_tokens} tokens, the text has {n}")
        expect(done.finish == "stop", f"finish_reason is {done.finish!r}")
    return f"{len(tried)} stop tokens, each ends ids and usage at its first place"


def stop_string(e: Endpoint) -> str:
    whole = e.complete(max_tokens=_LONG)
    tried = _cuts(whole.text)
    for stop in tried:
        done = e.complete(max_tokens=_LONG, stop=[stop], logprobs=1, return_token_ids=True)
        same(whole.text[: whole.text.index(stop)], done.text, f"text before the stop {stop!r}")
        expect(done.finish == "stop", f"finish_reason is {done.finish!r}")
        _agree(done)
    return f"{len(tried)} stop strings, across token borders; nothing remains beyond them"


def _cuts(text: str) -> list[str]:
    """Pieces of a text of 1 to 9 characters, from many places; of whole characters only."""
    pieces = [text[i : i + 1 + i % 9] for i in range(2, max(3, len(text) - 9), 7)]
    found = [piece for piece in dict.fromkeys(pieces) if piece and "\ufffd" not in piece]
    if not found:
        raise Unsupported("the model's text has no whole characters to stop at")
    return found[:8]


def _agree(done: Answer) -> None:
    """Everything that counts tokens gives the same number."""
    counts = {"usage": done.n_tokens}
    if done.token_ids is not None:
        counts["token_ids"] = len(done.token_ids)
    if done.logprobs is not None:
        counts["logprobs"] = len(done.logprobs)
    expect(len(set(counts.values())) == 1, f"numbers of tokens differ: {counts}")


def exact_length(e: Endpoint) -> str:
    whole = e.complete(max_tokens=12)
    for n in range(1, 12):
        done = e.complete(max_tokens=n, logprobs=0, return_token_ids=True)
        expect(done.n_tokens <= n, f"max_tokens {n} gave {done.n_tokens}")
        if done.finish == "length":
            expect(done.n_tokens == n, f"max_tokens {n} ended by length after {done.n_tokens}")
        expect(whole.text.startswith(done.text.rstrip("\ufffd")),
               f"max_tokens {n} gave another text: {done.text!r}")  # fmt: skip
        _agree(done)
    return "max_tokens 1 to 11 each give exactly that many"


def ignore_eos(e: Endpoint) -> str:
    done = e.complete(max_tokens=_LONG, ignore_eos=True, temperature=1.0, seed=2)
    expect(done.n_tokens == _LONG, f"{done.n_tokens} tokens of {_LONG}, finish {done.finish!r}")
    return f"{_LONG} tokens"


def min_tokens(e: Endpoint) -> str:
    ids = e.complete(max_tokens=_LONG, return_token_ids=True).ids
    token, n = ids[3], 20
    done = e.complete(
        max_tokens=_LONG, min_tokens=n, stop_token_ids=[token], return_token_ids=True
    )  # fmt: skip
    expect(len(done.ids) >= n, f"{len(done.ids)} tokens, min_tokens was {n}")
    expect(token not in done.ids[: n - 1], "a stop token came before min_tokens")
    return f"{len(done.ids)} tokens, the stop token not among the first {n}"


def full_context(e: Endpoint) -> str:
    limit = e.context_tokens
    if limit > _LONGEST_FILLED_TOKENS:
        raise Unsupported(
            f"the context has {limit} tokens; up to {_LONGEST_FILLED_TOKENS} are filled here"
        )
    ids = e.complete(max_tokens=8, return_token_ids=True, ignore_eos=True).ids
    for room in (9, 5, 4, 3, 2, 1):
        prompt = (ids * limit)[: limit - room]
        done = e.complete(prompt, max_tokens=room, ignore_eos=True)
        expect(done.n_tokens == room, f"{done.n_tokens} tokens where {room} had room")
        expect(done.finish == "length", f"finish_reason is {done.finish!r} in a full context")
    return f"prompts up to {limit - 1} of {limit} tokens; answers end with the context"


def too_long(e: Endpoint) -> str:
    limit = e.context_tokens
    ids: Any = e.complete(max_tokens=2, return_token_ids=True).ids[:1]
    for n in (limit, limit + 1, 2 * limit):
        reply = e.post("/v1/completions", {"model": e.model, "prompt": ids * n, "max_tokens": 4})
        expect(reply.status == 400, f"a prompt of {n} tokens gave {reply.status}: {reply.error}")
    alive = e.complete(PROMPT, max_tokens=1)
    expect(alive.n_tokens == 1, "no answer afterwards")
    return f"prompts of {limit} tokens and more are refused with 400; others go on"


CHECKS = [
    Check(name="stop-token", run=stop_token,
          promise="a stop token inside a block ends ids and usage there"),
    Check(name="stop-string", run=stop_string,
          promise="a stop string ends text, ids, logprobs and usage at one token"),
    Check(name="max-tokens-exact", run=exact_length,
          promise="max_tokens is never overrun by a block"),
    Check(name="ignore-eos", run=ignore_eos,
          promise="ignore_eos writes on to max_tokens"),
    Check(name="min-tokens", run=min_tokens,
          promise="nothing ends a text before min_tokens"),
    Check(name="full-context", run=full_context,
          promise="texts may fill the context to its last token"),
    Check(name="too-long", run=too_long,
          promise="a prompt too long is the caller's error, not the server's"),
]  # fmt: skip
