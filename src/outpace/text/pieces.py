"""What one token is in bytes.

Two spellings exist among the tokenizers of causal language models. *Byte-level* BPE writes every
byte as one printable character. *SentencePiece-like* vocabularies write a space as U+2581 and, for
characters they lack, single bytes as `<0xNN>`. Joining the bytes of all tokens gives the text in
both, which is what makes exact streaming possible.
"""

import json
from functools import cache
from typing import Final, Literal

from outpace.errors import ModelUnsupported

Spelling = Literal["byte_level", "sentencepiece"]

SPACE_MARK: Final = "\u2581"
_BYTE_TOKEN_CHARS: Final = len("<0xNN>")


@cache
def byte_of_char() -> dict[str, int]:
    """The byte that each character of a byte-level vocabulary stands for (GPT-2's table)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if byte not in set(printable)]
    table.update({chr(256 + n): byte for n, byte in enumerate(others)})
    return table


@cache
def char_of_byte() -> dict[int, str]:
    """The inverse of `byte_of_char`."""
    return {byte: char for char, byte in byte_of_char().items()}


def bytes_of_piece(piece: str, spelling: Spelling) -> bytes:
    """The bytes an ordinary (not added) token stands for."""
    if spelling == "byte_level":
        table = byte_of_char()
        try:
            return bytes([table[char] for char in piece])
        except KeyError:  # not spelled in the alphabet: the library takes it as plain text, too
            return piece.encode("utf-8")
    if len(piece) == _BYTE_TOKEN_CHARS and piece.startswith("<0x") and piece.endswith(">"):
        try:
            return bytes([int(piece[3:5], 16)])
        except ValueError:
            pass  # not two hexadecimal digits: an ordinary token that merely looks alike
    return piece.replace(SPACE_MARK, " ").encode("utf-8")


def read_decoder(document: str) -> tuple[Spelling, bool]:
    """How a tokenizer.json spells its tokens, and whether it drops the text's first space.

    document: the `decoder` section as JSON.

    Raises:
        ModelUnsupported: a decoder whose text is not the joined bytes of its tokens.
    """
    section = json.loads(document)
    steps = section.get("decoders", [section]) if section else []
    kinds = {step["type"] for step in steps}
    strip = any(
        (step["type"] == "Strip" and step.get("content") == " " and step.get("start", 0) == 1)
        or (step["type"] == "Metaspace" and step.get("prepend_scheme", "always") != "never")
        for step in steps
    )
    if "ByteLevel" in kinds and kinds <= {"ByteLevel", "Fuse"}:
        return "byte_level", False
    marks = [step for step in steps if step["type"] == "Replace"]
    spaced = all(step["pattern"] == {"String": SPACE_MARK} for step in marks)
    known = {"Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"}
    if kinds <= known and spaced and (marks or "Metaspace" in kinds):
        return "sentencepiece", strip
    raise ModelUnsupported(
        f"the tokenizer's decoder has the steps {sorted(kinds) or 'none'}; outpace streams "
        f"byte-level (GPT-2, Llama 3, Qwen) and SentencePiece-like (Llama 2, Gemma) tokenizers"
    )
