"""Sampling fields hold at every position, guessed ones too.

The trick of this file: two ways to ask for one law. min_p = 1, top_k = 1, a tiny top_p and a tiny
temperature all leave the likeliest token only, so their texts must be the greedy one. A field that
is applied to some positions only (those a server samples itself, say) gives another text.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from outpace.endpoint.client import Endpoint
from outpace.endpoint.verdict import Check, Failed, Unsupported, expect, same

_LONG = 48


def greedy_repeats(e: Endpoint) -> str:
    first = e.complete(max_tokens=_LONG)
    for _ in range(2):
        same(first.text, e.complete(max_tokens=_LONG).text, "greedy texts of one prompt")
    return f"3 equal texts of {first.n_tokens} tokens"


def plain_is_the_same(e: Endpoint) -> str:
    found: list[str] = []
    for fields in ({}, {"temperature": 1.0, "seed": 11}, {"temperature": 0.7, "seed": 12}):
        with_guesses = e.complete(max_tokens=_LONG, **fields)
        same(plain(e, max_tokens=_LONG, **fields).text, with_guesses.text, f"{fields or 'greedy'}")
        found.append(str(with_guesses.n_tokens))
    return f"equal texts of {', '.join(found)} tokens, greedy and seeded"


def plain(e: Endpoint, **fields: Any) -> Any:
    """The same request without speculation: of the baseline, or by our own switch."""
    if e.baseline is not None:
        return e.baseline.complete(**fields)
    return e.complete(**e.without_guesses(), **fields)


def likeliest_only(name: str, **fields: Any) -> Callable[[Endpoint], str]:
    def run(e: Endpoint) -> str:
        greedy = e.complete(max_tokens=_LONG)
        for seed in (1, 2):
            other = e.complete(max_tokens=_LONG, temperature=1.0, seed=seed, **fields)
            same(greedy.text, other.text, f"greedy and {name}")
        return f"the greedy text of {greedy.n_tokens} tokens, twice"

    return run


def tiny_temperature(e: Endpoint) -> str:
    greedy = e.complete(max_tokens=_LONG)
    same(greedy.text, e.complete(max_tokens=_LONG, temperature=1e-5).text, "temperature 0, 1e-5")
    return f"the greedy text of {greedy.n_tokens} tokens"


def wide_filters(e: Endpoint) -> str:
    wide = {"top_k": 10**7, "top_p": 1.0, "min_p": 0.0}
    free = e.complete(max_tokens=_LONG, temperature=1.0, seed=5)
    same(free.text, e.complete(max_tokens=_LONG, temperature=1.0, seed=5, **wide).text,
         "no filters, and filters that keep everything")  # fmt: skip
    return "top_k beyond the vocabulary, top_p 1 and min_p 0 change nothing"


def bias_forbids(e: Endpoint) -> str:
    ids = e.complete(max_tokens=_LONG, return_token_ids=True).ids
    banned = [token for token, _ in Counter(ids).most_common(3)]
    for temperature in (0, 1.0):
        done = e.complete(
            max_tokens=_LONG, return_token_ids=True, temperature=temperature, seed=3,
            logit_bias={str(token): -100 for token in banned},
        )  # fmt: skip
        hits = [i for i, token in enumerate(done.ids) if token in banned]
        expect(not hits, f"tokens with bias -100 at positions {hits[:5]} of {len(done.ids)}")
    return f"tokens {banned}, frequent before, never came"


def bias_forces(e: Endpoint) -> str:
    ids = e.complete(max_tokens=8, return_token_ids=True).ids
    token = ids[len(ids) // 2]
    done = e.complete(max_tokens=24, return_token_ids=True, logit_bias={str(token): 100})
    other = [i for i, found in enumerate(done.ids) if found != token]
    expect(not other, f"other tokens than the one with bias +100 at positions {other[:5]}")
    return f"token {token}, {len(done.ids)} times"


def penalties_count(e: Endpoint) -> str:
    """Two tokens lifted far above all others: the penalty must make them take turns."""
    n = 60
    ids = e.complete(max_tokens=_LONG, return_token_ids=True).ids
    pair = list(dict.fromkeys(ids))[:2]
    if len(pair) < 2:
        raise Unsupported("the text has one token only")
    bias = {str(token): 100 for token in pair}
    fields: dict[str, Any] = {"max_tokens": n, "return_token_ids": True, "logit_bias": bias}
    without = Counter(e.complete(**fields).ids)
    counts = Counter(e.complete(frequency_penalty=2.0, **fields).ids)
    fewest = min(counts[token] for token in pair)
    expect(
        fewest >= n // 4 - 5,
        f"with frequency_penalty 2 the two came {dict(counts)} times (without: {dict(without)})",
    )
    return f"they came {[counts[t] for t in pair]} times; without {[without[t] for t in pair]}"


def penalties_alike(e: Endpoint) -> str:
    for fields in ({"presence_penalty": 1.5}, {"frequency_penalty": 0.8},
                   {"repetition_penalty": 1.3}):  # fmt: skip
        for law in ({"temperature": 0}, {"temperature": 0.8, "seed": 6}):
            done = e.complete(max_tokens=_LONG, **law, **fields)
            same(plain(e, max_tokens=_LONG, **law, **fields).text, done.text, str(fields | law))
    return "presence, frequency and repetition penalties: the texts of plain decoding"


def seeds(e: Endpoint) -> str:
    texts = [e.complete(max_tokens=_LONG, temperature=1.0, seed=s).text for s in (1, 2, 3, 1, 2, 3)]
    same(texts[:3], texts[3:], "texts of seeds 1, 2, 3, twice")
    if len(set(texts)) == 1:
        raise Failed("seeds 1, 2 and 3 give the same text at temperature 1")
    return f"{len(set(texts))} texts of 3 seeds, twice the same"


def several(e: Endpoint) -> str:
    def ask() -> list[str]:
        found = e.completions(max_tokens=24, temperature=1.0, seed=8, n=3)
        expect(len(found) == 3, f"{len(found)} choices for n = 3")
        return [answer.text for answer in found]

    texts = ask()
    same(texts, ask(), "three seeded answers, twice")
    expect(len(set(texts)) > 1, "n = 3 at temperature 1 gave one text three times")
    return f"{len(set(texts))} texts of n = 3, twice the same"


CHECKS = [
    Check(name="greedy-repeats", run=greedy_repeats,
          promise="temperature 0 gives one text, again and again"),
    Check(name="plain-is-the-same", run=plain_is_the_same,
          promise="speculation changes no greedy and no seeded text"),
    Check(name="min-p-everywhere", run=likeliest_only("min_p 1", min_p=1.0),
          promise="min_p holds at every position"),
    Check(name="top-k-everywhere", run=likeliest_only("top_k 1", top_k=1),
          promise="top_k holds at every position"),
    Check(name="top-p-everywhere", run=likeliest_only("top_p 1e-6", top_p=1e-6),
          promise="top_p holds at every position"),
    Check(name="tiny-temperature", run=tiny_temperature,
          promise="a tiny temperature is greedy, not NaN"),
    Check(name="wide-filters", run=wide_filters,
          promise="filters that keep everything change nothing"),
    Check(name="bias-forbids", run=bias_forbids,
          promise="logit_bias -100 forbids a token at every position"),
    Check(name="bias-forces", run=bias_forces,
          promise="logit_bias +100 forces a token at every position"),
    Check(name="penalties-count", run=penalties_count,
          promise="penalties count the tokens of the same block"),
    Check(name="penalties-alike", run=penalties_alike,
          promise="penalties give the text of plain decoding"),
    Check(name="seeds", run=seeds,
          promise="a seed gives its own text, again and again"),
    Check(name="n-answers", run=several,
          promise="n answers differ, and a seed repeats all of them"),
]  # fmt: skip
