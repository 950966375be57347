"""A compiled grammar following one text: a `TokenMask`.

One matcher follows the text. To answer for a row of guesses it reads on from there, and takes
back what the next question does not share: reading a token costs about a microsecond and taking
back less, so that a tree asked in order of its branches costs one step per node. Each mask of a
round is computed once; what was learned below a guess that was then committed stays known.

Only committed tokens move the text, also when it has to be computed again after a preemption:
the engine commits a token once. An ended text asks the matcher nothing (it would complain).

All texts of one grammar share the automaton they build as they go, which is bounded. Where it is
full the matcher gives up; it is then made anew with an automaton of its own and asked again. Only
if that fails too is no token allowed, which core names as an error of the request, should the
text and not just a guess get there.

This is the one file of `text` that needs torch: masks are tensors.
"""

from collections.abc import Callable
from collections.abc import Sequence as Seq

import numpy as np
import torch
from llguidance import LLMatcher
from torch import Tensor

from outpace.core.law import TokenMask

# Tokens of a forced stretch that are reported at once.
_MAX_FORCED = 32

Path = tuple[int, ...]


class Compiled:
    """A compiled grammar: a matcher that has read nothing, to be copied.

    Copies share what they learn of the grammar. `renew` begins a new share, when one is full.
    """

    def __init__(self, make: Callable[[], LLMatcher]) -> None:
        self._make = make
        self.start = make()

    def renew(self, spent: LLMatcher) -> LLMatcher:
        """In place of `spent`, a start that went wrong; whoever comes first makes it."""
        if self.start is spent:
            self.start = self._make()
        return self.start


class GrammarMask(TokenMask):
    """Which tokens a grammar allows after one text, and after guesses below it.

    n_words: token ids that have a spelling; ids from there to vocab_size are padding and never
    allowed. ends: ids allowed where the grammar may end, and after the end. For one sequence, on
    one thread.
    """

    def __init__(
        self, compiled: Compiled, *, n_words: int, vocab_size: int, ends: frozenset[int]
    ) -> None:
        self._compiled = compiled
        self._start = compiled.start
        self._matcher = self._start.deep_copy()
        self._n_words = n_words
        self._vocab_size = vocab_size
        self._ends = ends
        self._end_ids = sorted(ends)
        self._text: list[int] = []
        self._ended = False
        self._lost = False  # something was committed that the grammar forbids
        self._ahead: list[int] = []  # guesses the matcher has read beyond the text
        self._bits: dict[Path, bytes] = {}  # by guesses: one bit per word, then the grammar's end
        self._forced: dict[Path, tuple[int, ...]] = {}

    @property
    def ended(self) -> bool:
        """Whether the text has ended."""
        return self._ended

    @property
    def may_end(self) -> bool:
        """Whether the text is complete as it stands."""
        return self._ended or self._may_end(())

    def allowed(self, guesses: Seq[int]) -> Tensor:
        """Which tokens may follow, bool [V]; all False where the guesses left the grammar."""
        path = tuple(guesses)
        bits = self._bits.get(path)
        if bits is None:
            bits = self._bits[path] = self._compute(path)
        n = self._n_words
        flags = np.unpackbits(
            np.frombuffer(bits, np.uint8), bitorder="little", count=max(self._vocab_size, n + 1)
        )
        may_end = flags[n]
        flags[n:] = 0  # padding
        if may_end:
            flags[self._end_ids] = 1
        row_V = flags[: self._vocab_size].view(np.bool_)
        return torch.from_numpy(row_V)

    def accepts(self, guesses: Seq[int], token: int) -> bool:
        """Whether `token` may follow; the same answer as `allowed`, for a fraction of its cost."""
        path = tuple(guesses)
        if not 0 <= token < self._vocab_size:
            return False
        if path in self._bits or self._past_end(path) or not self._seek(path):
            return bool(self.allowed(path)[token])
        forced = self.forced(path)
        if forced:
            return token == forced[0]
        if token in self._ends and self._may_end(path):
            return True
        if token >= self._n_words or self._matcher.is_stopped():
            return False
        return self._matcher.validate_tokens([token]) == 1

    def forced(self, guesses: Seq[int]) -> Seq[int]:
        """The tokens that must follow, one after the other, as far as there is no choice."""
        path = tuple(guesses)
        found = self._forced.get(path)
        if found is None:
            found = self._forced[path] = self._find_forced(path)
        return found

    def advance(self, token: int) -> None:
        """The text grew by `token`."""
        self._bits = {p[1:]: bits for p, bits in self._bits.items() if p[:1] == (token,)}
        self._forced = {p[1:]: found for p, found in self._forced.items() if p[:1] == (token,)}
        if self._ended or token in self._ends:
            self._ended = True
            return
        if self._ahead[:1] == [token]:
            del self._ahead[0]
        else:
            self._lost |= not self._seek((token,))
            self._ahead = []
        self._text.append(token)

    def _past_end(self, path: Path) -> bool:
        return self._ended or not self._ends.isdisjoint(path)

    def _compute(self, path: Path) -> bytes:
        if self._past_end(path):
            return self._only_end()
        for _ in range(2):
            if not self._seek(path):
                break
            if self._matcher.is_stopped():
                return self._only_end()
            bits = self._matcher.compute_bitmask()
            if not self._matcher.is_error():
                return bits
            self._renew()
        return bytes(self._n_words // 8 + 1)

    def _only_end(self) -> bytes:
        bits = bytearray(self._n_words // 8 + 1)
        bits[self._n_words // 8] = 1 << self._n_words % 8
        return bytes(bits)

    def _find_forced(self, path: Path) -> tuple[int, ...]:
        if self._past_end(path) or not self._seek(path):
            return ()
        if self._matcher.is_stopped():
            return tuple(self._end_ids) if len(self._end_ids) == 1 else ()
        found = self._matcher.compute_ff_tokens()[:_MAX_FORCED]
        return tuple(found) if all(t < self._vocab_size for t in found) else ()

    def _may_end(self, path: Path) -> bool:
        return self._seek(path) and (self._matcher.is_stopped() or self._matcher.is_accepting())

    def _seek(self, path: Path) -> bool:
        """Bring the matcher to where these guesses lead; False where they leave the grammar."""
        if self._lost:
            return False
        if self._read_on(path):
            return True
        if not self._matcher.is_error():
            return False
        self._renew()
        return self._read_on(path)

    def _read_on(self, path: Path) -> bool:
        shared = 0
        for ours, theirs in zip(self._ahead, path, strict=False):
            if ours != theirs:
                break
            shared += 1
        back = len(self._ahead) - shared
        if back:
            del self._ahead[shared:]
            if not self._matcher.rollback(back):
                return False
        for token in path[shared:]:
            # An id the library does not know would break it, and so would one after the end.
            if not 0 <= token < self._n_words or self._matcher.is_stopped():
                return False
            if self._matcher.try_consume_tokens([token]) != 1:
                return False
            self._ahead.append(token)
        return True

    def _renew(self) -> None:
        """Start over from the committed text, with a new automaton."""
        self._start = self._compiled.renew(self._start)
        self._matcher = self._start.deep_copy()
        self._matcher.try_consume_tokens(self._text)
        self._ahead = []
