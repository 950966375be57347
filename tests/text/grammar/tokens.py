"""Vocabularies for grammars: the byte tokens of `small`, and one whose tokens span JSON tokens."""

import json

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

from outpace.text.grammar.compile import GrammarLimits, Grammars
from outpace.text.tokenizer import Tokenizer
from small import EOS, byte_backend

# Each is made of two earlier ones: what a model's own tokens look like to a JSON parser.
_MERGES = (
    '{ "', '" :', ": ", ', "', '" ,', '": "', '", "', '" }', "t r", "u e", "tr ue", "l l", "n u",
    "nu ll", "a b", "ab c", "1 2", "} ]", "[ {", '[{ "', "k in", "i n", "in d", "k ind",
    '{" kind', "true }", "true} ]", "Ã ©", "\\\\ n",
)  # fmt: skip


def wide_backend() -> Backend:
    """All bytes, and tokens such as `{"`, `":`, `true}]` and é."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: i for i, letter in enumerate(letters)}
    merges: list[tuple[str, str]] = []
    for line in _MERGES:
        left, _, right = line.replace("\\\\", "\\").partition(" ")
        if right and left in vocabulary and right in vocabulary:
            merges.append((left, right))
            vocabulary[left + right] = len(vocabulary)
    backend = Backend(models.BPE(vocab=vocabulary, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<end>", "<call>"])
    return backend


def byte_grammars(*, padded: int = 0, limits: GrammarLimits | None = None) -> Grammars:
    """Grammars over one token per byte; `padded` ids have no spelling."""
    return Grammars(
        Tokenizer.wrap(byte_backend()),
        vocab_size=EOS + 1 + padded,
        eos_ids=frozenset({EOS}),
        limits=limits,
    )


def wide_grammars() -> tuple[Grammars, Tokenizer]:
    """Grammars over tokens that span several of JSON's, and their tokenizer."""
    tokenizer = Tokenizer.wrap(wide_backend())
    end = tokenizer.id_of("<end>")
    assert end is not None
    made = Grammars(tokenizer, vocab_size=tokenizer.vocab_size, eos_ids=frozenset({end}))
    return made, tokenizer


def compact(value: object) -> str:
    """JSON without blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
