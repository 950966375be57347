"""A small world for the native runtime, and a random walk through it beside a naive cache.

The naive cache is `TableRuntime`, which keeps texts as plain lists; the decoder under test stores
tokens in slots and reads each row's text back through the page tables.
"""

import random
from array import array
from functools import lru_cache
from hashlib import blake2b

import torch
from torch import Tensor

from outpace.core.score import Rows, Scores
from outpace.errors import CapacityError
from outpace.runtimes.native.passes import Decoder
from outpace.runtimes.native.runtime import NativeRuntime
from outpace.runtimes.native.table import TableDecoder
from outpace.runtimes.toy import Table, TableRuntime

VOCAB = 5
CONTEXT = 96


@lru_cache(maxsize=100_000)
def whole_text_table(text: tuple[int, ...]) -> Tensor:
    """Logits that depend on every token of the text and on its order."""
    digest = blake2b(array("i", text).tobytes(), digest_size=VOCAB).digest()
    return torch.tensor(list(digest), dtype=torch.float64)


def over(decoder: Decoder, *, reuse: bool = True) -> NativeRuntime:
    return NativeRuntime(
        decoder,
        vocab_size=VOCAB,
        context_tokens=CONTEXT,
        eos_ids=frozenset(),
        digest="tiny",
        reuse_beginnings=reuse,
    )


def make(n_pages: int, page_size: int) -> tuple[NativeRuntime, TableDecoder]:
    decoder = TableDecoder(whole_text_table, n_pages=n_pages, page_size=page_size)
    return over(decoder), decoder


def chain_rows(key: int, tokens: list[int], *, logits: bool = True) -> Rows:
    n = len(tokens)
    return Rows(key=key, tokens=tokens, parents=range(-1, n - 1), asked=range(n), logits=logits)


def read(runtime: NativeRuntime, key: int, tokens: list[int], chunk: int = 7) -> Tensor | None:
    """Catch up with a text, from wherever the runtime says it is; the last row's logits."""
    at, last = runtime.open(key, tokens), None
    while at < len(tokens):
        part = tokens[at : at + chunk]
        runtime.reserve(key, len(part))
        (score,) = runtime.extend([chain_rows(key, part)])
        runtime.keep(key, range(len(part)))
        at, last = at + len(part), score.logits_AV
    return None if last is None else last[-1]


def same(a: Scores, b: Scores) -> bool:
    if a.logits_AV is None or b.logits_AV is None:
        return a.logits_AV is b.logits_AV and a.best_A == b.best_A
    return torch.equal(a.logits_AV, b.logits_AV)


def table_walk(*, seed: int, n_pages: int, page_size: int) -> "Walk":
    return Walk(make(n_pages, page_size)[0], seed=seed, table=whole_text_table)


class Walk:
    """A random walk over the five verbs, the native runtime and the naive one side by side."""

    def __init__(self, native: NativeRuntime, *, seed: int, table: Table) -> None:
        self.dice = random.Random(seed)
        self.native = native
        self.naive = TableRuntime(table, vocab_size=VOCAB, context_tokens=CONTEXT)
        self.texts: dict[int, list[int]] = {}  # open sequences: committed tokens
        self.read: dict[int, int] = {}  # and how many of them were kept
        self.past: list[list[int]] = [[0]]
        self.key = 0
        self.n_refused = 0

    def run(self, n_steps: int) -> None:
        for step in range(n_steps):
            act = self.dice.random()
            if not self.texts or (act < 0.12 and len(self.texts) < 6):
                self.open(self.new_text())
            elif act < 0.18:
                self.close(self.dice.choice(list(self.texts)))
            elif act < 0.24:
                key = self.dice.choice(list(self.texts))
                self.open(self.close(key))  # preempted: the same tokens, from what is cached
            else:
                self.round()
            if step % 5 == 0:
                self.native.check_integrity(idle=False)
        for key in list(self.texts):
            self.close(key)
        self.native.check_integrity()
        stats = self.native.stats()
        assert stats.n_free + stats.n_cached == stats.n_pages

    def new_text(self) -> list[int]:
        known = self.dice.choice([*self.past, *self.texts.values()])
        shared = known[: self.dice.randint(0, len(known))]
        fresh = [self.token() for _ in range(self.dice.randint(1, 20))]
        return (shared + fresh)[: CONTEXT - 20]

    def token(self) -> int:
        return self.dice.choice((0, 0, 0, 0, 1, 2, 3, 4))  # texts coincide often

    def open(self, text: list[int]) -> None:
        self.key += 1
        n = self.native.open(self.key, text)
        assert n < len(text)
        self.naive.open(self.key, text)
        self.naive.reserve(self.key, n)
        self.naive.extend([chain_rows(self.key, text[:n])])
        self.naive.keep(self.key, range(n))
        self.texts[self.key], self.read[self.key] = text, n

    def close(self, key: int) -> list[int]:
        self.native.close(key)
        self.naive.close(key)
        self.past = [*self.past[-8:], self.texts[key]]
        return self.texts.pop(key)

    def rows(self, key: int) -> Rows:
        behind = self.texts[key][self.read[key] :]
        n = self.dice.randint(1, len(behind)) if self.dice.random() < 0.3 else len(behind)
        tokens, parents = behind[:n], list(range(-1, n - 1))
        for _ in range(self.dice.randint(0, 9) if n == len(behind) else 0):
            deeper = self.dice.random() < 0.6
            parents.append(len(tokens) - 1 if deeper else self.dice.randint(n - 1, len(tokens) - 1))
            tokens.append(self.token())
        asked = [row for row in range(len(tokens)) if self.dice.random() < 0.8]
        logits = self.dice.random() < 0.5
        return Rows(key=key, tokens=tokens, parents=parents, asked=asked, logits=logits)

    def round(self) -> None:
        keys = self.dice.sample(list(self.texts), self.dice.randint(1, len(self.texts)))
        batch = [rows for key in keys if self.fits(rows := self.rows(key))]
        for a, b in zip(self.native.extend(batch), self.naive.extend(batch), strict=True):
            assert same(a, b)
        for rows in batch:
            self.keep(rows)

    def fits(self, rows: Rows) -> bool:
        before = self.native.stats()
        try:
            self.native.reserve(rows.key, len(rows.tokens))
        except CapacityError:
            assert self.native.stats() == before
            self.n_refused += 1
            self.close(rows.key)
            return False
        self.naive.reserve(rows.key, len(rows.tokens))
        return True

    def keep(self, rows: Rows) -> None:
        text, n_read, path, row = self.texts[rows.key], self.read[rows.key], list[int](), -1
        while children := [r for r, parent in enumerate(rows.parents) if parent == row]:
            if n_read + len(path) >= len(text) and self.dice.random() < 0.2:
                break
            row = self.dice.choice(children)
            path.append(row)
        for runtime in (self.native, self.naive):
            runtime.keep(rows.key, path)
        text = text[:n_read] + [rows.tokens[r] for r in path] + text[n_read + len(path) :]
        self.read[rows.key] = n_read + len(path)
        if self.read[rows.key] == len(text):
            text = [*text, self.token()]
        self.texts[rows.key] = text
        if len(text) > CONTEXT - 12:
            self.close(rows.key)
