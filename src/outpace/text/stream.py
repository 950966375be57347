"""Token ids to text as they come: whole characters, and nothing that a stop string may take back.

One `Spotter` per text turns ids into characters and watches for stop strings, character by
character. `TextStream` (what a reader sees) and `StopWatch` (what ends the ids) are both one
Spotter, so text and ids end at the same token.

Where a text ends: at the stop string that *completes* first. If several complete at the same
character, the longest of them, which begins leftmost. The text is cut before it. Stop strings are
looked for in the text a reader sees: control tokens are no part of it unless they are shown.
"""

import codecs
from collections import deque
from collections.abc import Iterable
from collections.abc import Sequence as Seq

from outpace.errors import RequestError
from outpace.text.tokenizer import Tokenizer


class StopStrings:
    """An Aho-Corasick automaton over stop strings: one step per character, whatever their number.

    A node is the longest end of the text that begins a stop string; its depth is therefore how
    many characters must be held back. Aho and Corasick 1975.

    Raises:
        RequestError: an empty stop string.
    """

    def __init__(self, stop: Seq[str]) -> None:
        self.words = tuple(stop)
        self._next: list[dict[str, int]] = [{}]
        self.depth: list[int] = [0]
        self.cut: list[int] = [0]
        """By node: how many characters the longest stop string that ends here has; 0 = none."""
        for word in stop:
            if not word:
                raise RequestError("a stop string is empty; give at least one character, or none")
            self._add(word)
        self._fail = [0] * len(self._next)
        self._link()

    def _add(self, word: str) -> None:
        node = 0
        for char in word:
            if char not in self._next[node]:
                self._next.append({})
                self.depth.append(self.depth[node] + 1)
                self.cut.append(0)
                self._next[node][char] = len(self._next) - 1
            node = self._next[node][char]
        self.cut[node] = len(word)

    def _link(self) -> None:
        queue = deque(self._next[0].values())
        while queue:
            node = queue.popleft()
            for char, child in self._next[node].items():
                self._fail[child] = self.step(self._fail[node], char)
                self.cut[child] = self.cut[child] or self.cut[self._fail[child]]
                queue.append(child)

    def step(self, node: int, char: str) -> int:
        """The node after one more character; 0 is where a text begins."""
        while node and char not in self._next[node]:
            node = self._fail[node]
        return self._next[node].get(char, 0)


class Spotter:
    """Bytes of tokens to whole characters, and stop strings in them. Constant work per character.

    continues: whether the text continues another one. Tokenizers that put a space before a text
        (Llama 2) drop it again at the start of one; a continuation keeps it.
    show_special: whether control tokens are spelled out or left out.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        stop: Seq[str] = (),
        *,
        continues: bool = False,
        show_special: bool = False,
    ) -> None:
        self._tokenizer = tokenizer
        self._hidden = frozenset[int]() if show_special else tokenizer.special_ids
        self._stops = StopStrings(stop)
        self._strip = tokenizer.strips_first_space and not continues
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._node = 0
        self._held = ""
        self.stopped = False
        """Whether a stop string has completed; nothing is read after that."""

    def read(self, token: int) -> str:
        """Characters that became certain with this token; "" once stopped."""
        if token in self._hidden:
            return ""
        data = self._tokenizer.token_bytes(token)
        if self._strip and data:
            data = data.removeprefix(b" ")
            self._strip = False
        return self._watch(self._decoder.decode(data))

    def end(self) -> str:
        """The rest: what was held back, and U+FFFD for bytes that never became a character."""
        if self.stopped:
            return ""
        text = self._watch(self._decoder.decode(b"", final=True))
        rest, self._held = self._held, ""
        return text + rest

    def _watch(self, text: str) -> str:
        if self.stopped:
            return ""
        if not self._stops.words:
            return text
        stops, node = self._stops, self._node
        for index, char in enumerate(text):
            node = stops.step(node, char)
            if stops.cut[node]:
                self.stopped = True
                seen = self._held + text[: index + 1]
                self._held = ""
                return seen[: -stops.cut[node]]
        self._node = node
        seen = self._held + text
        certain = len(seen) - stops.depth[node]
        self._held = seen[certain:]
        return seen[:certain]


class TextStream:
    """The text of one answer, piece by piece. The pieces joined are the whole text, always.

    Without stop strings that is `tokenizer.decode` of all tokens, however they were grouped.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        stop: Seq[str] = (),
        *,
        continues: bool = False,
        show_special: bool = False,
    ) -> None:
        self._spotter = Spotter(tokenizer, stop, continues=continues, show_special=show_special)

    @property
    def stopped(self) -> bool:
        """Whether a stop string ended the text."""
        return self._spotter.stopped

    def push(self, tokens: Iterable[int]) -> str:
        """What can be shown once these tokens were added; "" is common."""
        return "".join([self._spotter.read(token) for token in tokens])

    def flush(self) -> str:
        """What was held back, at the end of the text. A second call gives ""."""
        return self._spotter.end()


class StopWatch:
    """`core.sequence.StopScan` over stop strings: tells the engine at which token a text ends.

    Give it the same options as the `TextStream` that shows the text.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        stop: Seq[str],
        *,
        continues: bool = False,
        show_special: bool = False,
    ) -> None:
        self._spotter = Spotter(tokenizer, stop, continues=continues, show_special=show_special)

    def completes(self, token: int) -> bool:
        """Whether the text with this token appended contains a stop string."""
        self._spotter.read(token)
        return self._spotter.stopped
