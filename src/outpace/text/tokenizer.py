"""Text to token ids and back, with the exact bytes of every token.

One class over the `tokenizers` library, whether the vocabulary came from a tokenizer.json, a GGUF
file or a tokenizer object of `transformers`. Importing this file loads neither torch nor
transformers.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import Any

from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend

from outpace.errors import ModelCorrupt, RequestError
from outpace.text import gguf_vocab, marks
from outpace.text.gguf_vocab import GgufFields
from outpace.text.marks import Marks
from outpace.text.pieces import bytes_of_piece, read_decoder


class Tokenizer:
    """A vocabulary and the rules that cut text into it. Safe to share between threads.

    bos_id, add_bos: the token that opens a text, and whether prompts get one. eos_id: the end of
    text its templates know; eos_ids: all ids that end a text. special_ids: ids of control tokens,
    whose strings are not text. template: the chat template's source, None where the model has
    none. vocab_size: one more than the largest id (a model's logits may be padded beyond it).
    strips_first_space: whether a text's first space is the tokenizer's own (Llama 2) and not part
    of the text.
    """

    def __init__(self, backend: Backend, marked: Marks) -> None:
        backend.no_truncation()
        backend.no_padding()
        self._backend = backend
        self._lock = Lock()
        decoder: Any = backend.decoder
        state = decoder.__getstate__().decode("utf-8") if decoder is not None else "null"
        self._spelling, self.strips_first_space = read_decoder(state)
        added: dict[int, AddedToken] = backend.get_added_tokens_decoder()
        self._added = {index: token.content for index, token in added.items()}
        self._bytes: dict[int, bytes] = {}
        self._digest: str | None = None
        self.special_ids = frozenset(index for index, token in added.items() if token.special)
        # Not by listing the vocabulary: that takes half a second for Gemma's.
        self.vocab_size = max(backend.get_vocab_size(), max(added, default=-1) + 1)
        self.bos_id, self.add_bos = marked.bos_id, marked.add_bos and marked.bos_id is not None
        self.eos_id, self.eos_ids = marked.eos_id, marked.eos_ids
        self.template = marked.template

    @classmethod
    def from_folder(cls, root: Path) -> "Tokenizer":
        """Read a model folder: tokenizer.json, and what its config files say about special tokens.

        A folder with only older files (tokenizer.model, vocab.json) is converted by transformers.

        Raises:
            ModelCorrupt: no tokenizer there, or one that cannot be read.
            ModelUnsupported: a tokenizer whose tokens are not pieces of text.
        """
        path = root / "tokenizer.json"
        backend = _read(path) if path.is_file() else _convert(root)
        return cls(backend, marks.from_folder(root, backend))

    @classmethod
    def from_gguf(cls, fields: GgufFields) -> "Tokenizer":
        """Build from a GGUF file's metadata (`Weights.gguf`, `GgufHeader.metadata`).

        Raises:
            ModelUnsupported, ModelCorrupt: as `gguf_vocab.build`.
        """
        backend = gguf_vocab.build(fields)
        return cls(backend, marks.from_gguf(fields, backend))

    @classmethod
    def wrap(cls, tokenizer: Any) -> "Tokenizer":
        """Take over a fast tokenizer object of `transformers`, or one of `tokenizers` itself.

        Raises:
            ModelCorrupt: an object of another kind (a slow tokenizer has no exact bytes).
        """
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        if not isinstance(backend, Backend):
            raise ModelCorrupt(
                f"a tokenizer of type {type(tokenizer).__name__} cannot be wrapped; give a fast "
                f"tokenizer of transformers (AutoTokenizer's default) or a tokenizers.Tokenizer"
            )
        own = Backend.from_str(backend.to_str())  # the caller's object stays as it is
        return cls(own, marks.from_object(tokenizer, own))

    def encode(self, text: str, *, special: bool, bos: bool = True) -> list[int]:
        """Token ids of `text`.

        special: whether strings such as `<|im_end|>` in the text become control tokens (for a
            rendered chat template) or stay plain text (for anything a user typed).
        bos: whether to open with the begin-of-text token, if the model wants one and the text
            does not already begin with it.

        Raises:
            RequestError: the text has half of a surrogate pair, which no UTF-8 can spell.
        """
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise RequestError(
                f"the text has a lone surrogate (half a character) at index {error.start}; "
                f"only whole Unicode characters have tokens"
            ) from None
        with self._lock:  # the switch belongs to the object, not to the call
            self._backend.encode_special_tokens = not special
            ids = self._backend.encode(text, add_special_tokens=False).ids
        if bos and self.add_bos and self.bos_id is not None and ids[:1] != [self.bos_id]:
            ids.insert(0, self.bos_id)
        return ids

    def encode_rendered(self, text: str) -> list[int]:
        """Token ids of a rendered chat template: its control strings are control tokens."""
        return self.encode(text, special=True)

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """Text of `ids`; bytes that are no UTF-8 become U+FFFD, the tokenizer's own space is cut.

        Equal to what `TextStream` gives piece by piece for the same ids.
        """
        skipped = self.special_ids if skip_special else ()
        data = b"".join(self.token_bytes(index) for index in ids if index not in skipped)
        if self.strips_first_space and data.startswith(b" "):
            data = data[1:]
        return data.decode("utf-8", "replace")

    def token(self, index: int) -> str | None:
        """The vocabulary's own spelling of a token; None for an id it does not have."""
        return self._added.get(index) or self._backend.id_to_token(index)

    def id_of(self, token: str) -> int | None:
        """The id of a token by the vocabulary's own spelling; None when it has none."""
        return self._backend.token_to_id(token)

    def token_bytes(self, index: int) -> bytes:
        """The exact bytes a token adds to a text, control tokens spelled out.

        Empty for ids the vocabulary does not have: models are often padded beyond it.
        """
        found = self._bytes.get(index)
        if found is None:
            if index in self._added:
                found = self._spell_added(self._added[index])
            else:
                piece = self._backend.id_to_token(index) if index >= 0 else None
                found = bytes_of_piece(piece, self._spelling) if piece is not None else b""
            self._bytes[index] = found
        return found

    def _spell_added(self, content: str) -> bytes:
        if self._spelling == "sentencepiece":
            return bytes_of_piece(content, self._spelling)
        return content.encode("utf-8")

    def vocabulary(self) -> tuple[bytes, ...]:
        """Every token's exact bytes, by id. Made anew each time: a quarter second for 262,144."""
        return tuple(self.token_bytes(index) for index in range(self.vocab_size))

    def vocabulary_digest(self) -> str:
        """Identity of the vocabulary: sha256 over every token's bytes, in order of ids.

        Independent of the file format it came from. Equal sizes prove nothing; this does.
        """
        if self._digest is None:
            digest = hashlib.sha256()
            for data in self.vocabulary():
                digest.update(len(data).to_bytes(4, "little") + data)
            self._digest = digest.hexdigest()
        return self._digest


def same_vocabulary(a: Tokenizer, b: Tokenizer) -> bool:
    """Whether every id means the same bytes in both, so that ids can pass between their models."""
    return a.vocab_size == b.vocab_size and a.vocabulary_digest() == b.vocabulary_digest()


def _read(path: Path) -> Backend:
    try:
        return Backend.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise ModelCorrupt(
            f"{path} is not a readable tokenizer ({error}); download it again"
        ) from (error)


def _convert(root: Path) -> Backend:
    """Let transformers turn older files (tokenizer.model, vocab.json + merges.txt) into one."""
    older = [n for n in ("tokenizer.model", "vocab.json") if (root / n).is_file()]
    if not older:
        raise ModelCorrupt(
            f"{root} has no tokenizer.json (nor tokenizer.model, nor vocab.json with merges.txt); "
            f"download it from where the model came from"
        )
    from transformers import AutoTokenizer

    try:
        loaded = AutoTokenizer.from_pretrained(
            str(root), trust_remote_code=False, local_files_only=True
        )
        return Backend.from_str(loaded.backend_tokenizer.to_str())
    except Exception as error:  # whatever a converter meets in a foreign file
        raise ModelCorrupt(
            f"{root} has {' and '.join(older)} but no tokenizer.json, and transformers could not "
            f"convert them ({error}); save it once with AutoTokenizer(...).save_pretrained(FOLDER)"
        ) from error
