"""Build a tokenizer from the vocabulary a GGUF file carries.

The file names the family (`tokenizer.ggml.model`) and the pre-tokenizer (`tokenizer.ggml.pre`);
the rules behind those names live here. A name that is not listed is refused: a wrong split gives
other ids for the same text, silently. Regular expressions follow llama.cpp's `llama-vocab.cpp` and
the tokenizer.json files of the models themselves.
"""

from collections.abc import Mapping
from typing import Any, Final

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from outpace.errors import ModelCorrupt, ModelUnsupported
from outpace.text.pieces import SPACE_MARK

GgufFields = Mapping[str, object]

_NORMAL: Final = 1
_CONTROL: Final = 3
_USER_DEFINED: Final = 4

_LLAMA3: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2: Final = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_TEKKEN: Final = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SPLITS: Final = {
    **dict.fromkeys(("llama3", "llama-v3", "llama-bpe", "falcon3", "dbrx", "smaug-bpe"), _LLAMA3),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen"), _QWEN2),
    "tekken": _TEKKEN,
}
_DIGITS_APART: Final = ("smollm", "starcoder", "refact", "command-r", "codeshell")
_PLAIN: Final = ("gpt-2", "gpt2", "mpt", "olmo", "phi-2")
# Whole words found in the vocabulary skip the merges (`ignore_merges` in those tokenizer.json).
_WHOLE_WORDS: Final = ("llama3", "llama-v3", "llama-bpe", "falcon3", "tekken")
_COMPOSED: Final = ("qwen2", "deepseek-r1-qwen")  # these normalize to NFC first


def build(fields: GgufFields) -> Tokenizer:
    """The tokenizer a GGUF file describes, without a post-processor.

    Takes 0.05 s for 49,000 byte-level tokens, 1.5 s for Gemma's 262,144. Keeping the result as a
    tokenizer.json was tried: reading that takes as long.

    Raises:
        ModelUnsupported: a family or pre-tokenizer outpace does not know for certain.
        ModelCorrupt: the vocabulary is missing, or its lists do not fit together.
    """
    family = fields.get("tokenizer.ggml.model")
    tokens = _strings(fields, "tokenizer.ggml.tokens")
    kinds = _numbers(fields, "tokenizer.ggml.token_type", len(tokens))
    if family == "gpt2":
        backend = _byte_level(fields, tokens)
    elif family == "llama":
        backend = _sentencepiece(fields, tokens)
        tokens = [_respelled(token) for token in tokens]
    else:
        raise ModelUnsupported(
            f"the GGUF file's tokenizer is of family {family!r}; outpace builds 'gpt2' (byte-level "
            f"BPE) and 'llama' (SentencePiece BPE). Put the model's own tokenizer.json beside the "
            f"file, or use the safetensors version of the model"
        )
    _add_marked(backend, tokens, kinds)
    return backend


def _byte_level(fields: GgufFields, tokens: list[str]) -> Tokenizer:
    pre = str(fields.get("tokenizer.ggml.pre", ""))
    merges = [_pair(line) for line in _strings(fields, "tokenizer.ggml.merges")]
    backend = _bpe(
        {token: index for index, token in enumerate(tokens)}, merges,
        ignore_merges=pre in _WHOLE_WORDS,
    )  # fmt: skip
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    steps: list[pre_tokenizers.PreTokenizer]
    if pre in _PLAIN:
        steps = [plain]
    elif pre in _DIGITS_APART:
        steps = [pre_tokenizers.Digits(individual_digits=True), plain]
    elif pre in _SPLITS:
        bare = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        steps = [pre_tokenizers.Split(Regex(_SPLITS[pre]), behavior="isolated"), bare]
    else:
        known = sorted({*_PLAIN, *_DIGITS_APART, *_SPLITS})
        raise ModelUnsupported(
            f"the GGUF file splits text by the rule {pre!r}, which outpace does not know; known "
            f"are {', '.join(known)}. Put the model's own tokenizer.json beside the file"
        )
    if pre in _COMPOSED:
        backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.Sequence(steps)
    backend.decoder = decoders.ByteLevel()
    return backend


def _sentencepiece(fields: GgufFields, tokens: list[str]) -> Tokenizer:
    gemma = str(fields.get("general.architecture", "")).startswith("gemma")
    vocab: dict[str, int] = {}
    for index, token in enumerate(tokens):
        vocab.setdefault(_respelled(token), index)
    if gemma:  # Gemma's scores say nothing; its merges follow the order of the vocabulary
        rank = {token: -float(index) for token, index in vocab.items()}
    else:
        scores = _numbers(fields, "tokenizer.ggml.scores", len(tokens))
        rank = {token: scores[index] for token, index in vocab.items()}
    unknown = fields.get("tokenizer.ggml.unknown_token_id")
    backend = _bpe(
        vocab, derive_merges(vocab, rank),
        fuse_unk=True, byte_fallback=True,
        unk_token=tokens[unknown] if isinstance(unknown, int) else None,
    )  # fmt: skip
    steps = [decoders.Replace(SPACE_MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
    if gemma:
        backend.normalizer = normalizers.Replace(" ", SPACE_MARK)
        backend.pre_tokenizer = pre_tokenizers.Split(" ", behavior="merged_with_previous")
    elif fields.get("tokenizer.ggml.add_space_prefix", True):
        backend.pre_tokenizer = pre_tokenizers.Metaspace(SPACE_MARK, "first", split=False)
        steps.append(decoders.Strip(content=" ", left=1))
    else:
        backend.pre_tokenizer = pre_tokenizers.Metaspace(SPACE_MARK, "never", split=False)
    backend.decoder = decoders.Sequence(steps)
    return backend


def _bpe(
    vocab: dict[str, int], merges: list[tuple[str, str]], **options: bool | str | None
) -> Tokenizer:
    try:
        return Tokenizer(models.BPE(vocab=vocab, merges=merges, **options))
    except Exception as error:  # the library raises bare Exception
        raise ModelCorrupt(
            f"the GGUF file's tokens and tokenizer.ggml.merges do not fit together ({error}); "
            f"download it again"
        ) from error


def derive_merges(vocab: Mapping[str, int], rank: Mapping[str, float]) -> list[tuple[str, str]]:
    """The merges a SentencePiece BPE vocabulary implies: every split into two known pieces.

    Best-ranked results come first; among the splits of one result, the longer left part, as
    `transformers` converts such vocabularies.
    """
    found: list[tuple[float, int, int, str, str]] = []
    for whole, score in rank.items():
        splits = [(whole[:at], whole[at:]) for at in range(1, len(whole))]
        pairs = [(vocab[a], vocab[b], a, b) for a, b in splits if a in vocab and b in vocab]
        found.extend((score, len(a), len(b), a, b) for _, _, a, b in sorted(pairs))
    found.sort(key=lambda entry: entry[:3], reverse=True)
    return [(a, b) for *_, a, b in found]


def _respelled(token: str) -> str:
    """Runs of real spaces (as Gemma's files have them) in the spelling of all other tokens."""
    return SPACE_MARK * len(token) if token and not token.strip(" ") else token


def _add_marked(backend: Tokenizer, tokens: list[str], kinds: list[float]) -> None:
    """Tokens the file marks are matched whole: control tokens as special, the user's as plain."""
    for kind, special in ((_CONTROL, True), (_USER_DEFINED, False)):
        marked = [
            AddedToken(token, normalized=False, special=special)
            for token, found in zip(tokens, kinds, strict=True)
            if found == kind and token
        ]
        if special:
            backend.add_special_tokens(marked)
        else:
            backend.add_tokens(marked)


def _pair(line: str) -> tuple[str, str]:
    left, _, right = line.partition(" ")
    return left, right


def _strings(fields: GgufFields, name: str) -> list[str]:
    found = fields.get(name)
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise ModelCorrupt(
            f"the GGUF file has no list of strings {name!r}, so it carries no tokenizer outpace "
            f"can build; download it again, or put the model's tokenizer.json beside it"
        )
    return found


def _numbers(fields: GgufFields, name: str, count: int) -> list[float]:
    found: Any = fields.get(name)
    if found is None:
        return [_NORMAL] * count
    if not isinstance(found, list) or len(found) != count:
        size = len(found) if isinstance(found, list) else found
        raise ModelCorrupt(
            f"the GGUF file's {name!r} has {size} entries for {count} tokens; download it again"
        )
    return found
