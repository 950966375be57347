"""The bytes of each of a model's token ids, as drafters with other vocabularies compare them."""

from collections.abc import Sequence as Seq
from typing import Any

from outpace.text.tokenizer import Tokenizer


class Vocabulary(Seq[bytes]):
    """Spelled only when read: most drafters never do. size: padding ids included."""

    def __init__(self, tokenizer: Tokenizer, size: int) -> None:
        self._tokenizer, self._size = tokenizer, size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: Any) -> Any:  # the two overloads of Sequence
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._size))]
        if not 0 <= index < self._size:
            raise IndexError(index)
        return self._tokenizer.token_bytes(index)
