"""What the harness and its workers say to each other: one JSON object a line, both ways.

A worker reads a `Setup`, answers with facts about itself, then answers requests one at a time.
Runs in every peer's environment, so it needs nothing but the standard library.
"""

import ctypes
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import asdict, dataclass
from typing import Protocol, TextIO

Facts = dict[str, object]
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a worker opens.

    speculate: with the peer's own speculation that needs no second model. model: a catalog name,
    GGUF file or directory, whichever the peer reads. weights: the format asked for, "" = default.
    """

    model: str
    speculate: bool
    threads: int
    weights: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One generation. first_s: from the request to the first n_first tokens; total_s: to the last.

    A generation of more tokens than n_first decodes `len(ids) - n_first` tokens in
    `total_s - first_s` seconds.
    """

    ids: tuple[int, ...]
    first_s: float
    n_first: int
    total_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Many prompts at once: tokens generated, and seconds from the first request to the end."""

    n_tokens: int
    total_s: float


class Peer(Protocol):
    """An engine, opened."""

    def facts(self) -> Facts:
        """Versions, weight format, settings of its speculation."""

    def generate(self, ids: list[int], n: int, *, stop_at_eos: bool) -> Answer:
        """n tokens, greedily; only outpace is ever asked to stop at the end of a text."""

    def batch(self, prompts: list[list[int]], n: int) -> Throughput:
        """n tokens for each of the prompts, all submitted at once."""

    def forget(self) -> None:
        """Drop whatever earlier answers taught the drafter."""


class Watch:
    """Notes when tokens come; made when the request is."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._first_s = 0.0
        self._last_s = 0.0
        self._n_first = 0
        self._n = 0

    def saw(self, n_so_far: int) -> None:
        """Tokens of the answer seen so far; a call without news changes nothing."""
        if n_so_far <= self._n:
            return
        self._last_s = time.perf_counter() - self._began
        if not self._n:
            self._first_s, self._n_first = self._last_s, n_so_far
        self._n = n_so_far

    def answer(self, ids: Seq[int]) -> Answer:
        """The generation, timed."""
        return Answer(
            ids=tuple(int(i) for i in ids),
            first_s=self._first_s,
            n_first=self._n_first,
            total_s=self._last_s,
        )


def serve(open_peer: Callable[[Setup], Peer]) -> None:
    """A worker's life: until its input ends. What libraries print goes to stderr."""
    _die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the harness's to handle
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    peer: Peer | None = None
    for line in sys.stdin:
        try:
            message = json.loads(line)
            if peer is None:
                peer = open_peer(Setup(**message))
                _reply(replies, {"facts": peer.facts()})
            else:
                _reply(replies, _handle(peer, message))
        except Exception as error:  # whatever a peer raises is this arm's result
            traceback.print_exc()
            _reply(replies, {"error": f"{type(error).__name__}: {error}"})


def _handle(peer: Peer, message: dict[str, object]) -> dict[str, object]:
    match message:
        case {"op": "generate", "ids": list(ids), "n": int(n), "stop_at_eos": bool(stop)}:
            return asdict(peer.generate(ids, n, stop_at_eos=stop))
        case {"op": "batch", "prompts": list(prompts), "n": int(n)}:
            return asdict(peer.batch(prompts, n))
        case {"op": "forget"}:
            peer.forget()
            return {}
    return {"error": f"no such request: {sorted(message)}"}


def _reply(out: TextIO, message: dict[str, object]) -> None:
    out.write(json.dumps(message) + "\n")
    out.flush()


def _die_with_parent() -> None:
    """A worker that is stopped when its harness is killed would stay for ever."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
