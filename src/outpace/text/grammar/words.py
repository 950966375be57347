"""The model's tokens for the grammar library, by their exact bytes.

The library walks a trie of all tokens. It gets every token's bytes from our own tokenizer, never
a tokenizer file of its own reading, so that what it allows is what the text will be. One token is
added behind the last, `END`: the library says with it that the grammar may end here; which of the
model's ids end a text is ours to say (`mask.py`).
"""

from llguidance import LLTokenizer, TokenizerWrapper

from outpace.text.tokenizer import Tokenizer

END = b"<end of the grammar>"
# Sets of tokens the library looks at as one where a grammar takes them all or none: its own (for
# strings), and words: measured, a mask of a regex of words then takes 7 us in place of 200.
SLICES = (*LLTokenizer.general_slices(), r"[a-z]+", r" [a-z]+", r"[a-z ]+")


class Words:
    """A vocabulary as llguidance wants it (`TokenizerWrapper` names these attributes)."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        vocabulary = tokenizer.vocabulary()
        self._tokenizer = tokenizer
        self.n_words = len(vocabulary)
        self.tokens = [*vocabulary, END]
        self.eos_token_id = self.end_id = self.n_words
        self.bos_token_id: int | None = None
        # Control tokens are no text, though their names could be spelled.
        self.special_token_ids = [*sorted(tokenizer.special_ids), self.end_id]
        self.trie = LLTokenizer(TokenizerWrapper(self), eos_token=self.end_id, slices=list(SLICES))

    def __call__(self, data: bytes | str) -> list[int]:
        """The tokens a model would write `data` with; where the grammar leaves one way, its way.

        Some tokenizers put a space before a text. A line break before it keeps that apart.
        """
        text = data if isinstance(data, str) else data.decode("utf-8")
        data = text.encode("utf-8")
        ids = self._tokenizer.encode(text, special=False, bos=False)
        if self._spelled(ids) == data:
            return ids
        ids = self._tokenizer.encode("\n" + text, special=False, bos=False)
        for n in range(len(ids)):
            if self._spelled(ids[n:]) == data:
                return ids[n:]
        return self.trie.greedy_tokenize(text)

    def _spelled(self, ids: list[int]) -> bytes:
        return b"".join(self.tokens[i] for i in ids)
