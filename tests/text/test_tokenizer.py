"""The tokenizer gives the ids transformers gives, and bytes that join to the text."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, processors

from outpace.errors import ModelCorrupt, ModelUnsupported, RequestError
from outpace.text import gguf_vocab
from outpace.text.tokenizer import Tokenizer, same_vocabulary
from text.vocabularies import MARKED, TEXTS, byte_level_fields, sentencepiece_fields


def llama3_folder(root: Path, **config: object) -> Path:
    """A model folder whose tokenizer.json adds BOS by itself, as Llama 3's does."""
    fields = byte_level_fields("llama-bpe")
    backend = gguf_vocab.build(fields)
    backend.post_processor = processors.TemplateProcessing(
        single="<|im_start|> $A", special_tokens=[("<|im_start|>", 1)]
    )
    backend.save(str(root / "tokenizer.json"))
    names = {"bos_token": "<|im_start|>", "eos_token": {"content": "<|im_end|>"}, **config}
    (root / "tokenizer_config.json").write_text(json.dumps(names), "utf-8")
    return root


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("pre", ["smollm", "gpt-2", "llama-bpe", "qwen2", "tekken"])
def test_byte_level_texts_survive_the_round_trip_exactly(pre: str, text: str) -> None:
    tokenizer = Tokenizer.from_gguf(byte_level_fields(pre))
    composed = text if pre != "qwen2" else __import__("unicodedata").normalize("NFC", text)
    ids = tokenizer.encode(text, special=False)
    assert tokenizer.decode(ids, skip_special=False) == composed
    assert b"".join(map(tokenizer.token_bytes, ids)) == composed.encode("utf-8")


@pytest.mark.parametrize("pre", ["gpt-2", "qwen2", "tekken"])
def test_byte_level_ids_equal_those_of_transformers(pre: str) -> None:
    gguf = pytest.importorskip("transformers.integrations.gguf")
    fields = byte_level_fields(pre)
    theirs = convert(gguf, fields)
    ours = Tokenizer.from_gguf(fields)
    for text in TEXTS:
        composed = text if pre != "qwen2" else __import__("unicodedata").normalize("NFC", text)
        expected = theirs.encode(composed, add_special_tokens=False).ids
        assert ours.encode(text, special=True) == expected


@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_sentencepiece_ids_equal_those_of_transformers(architecture: str) -> None:
    gguf = pytest.importorskip("transformers.integrations.gguf")
    fields = sentencepiece_fields(architecture)
    theirs = convert(gguf, fields)
    ours = Tokenizer.from_gguf(fields)
    for text in (*TEXTS, "the quick  on the", " the   quick."):
        expected = theirs.encode(text, add_special_tokens=False).ids
        assert ours.encode(text, special=True, bos=False) == expected


def convert(gguf: Any, fields: Mapping[str, object]) -> Any:
    """transformers' own conversion of the same metadata."""
    names = {"ggml.model": "tokenizer_type", "ggml.pre": "pre_tokenizer_type",
             "ggml.tokens": "tokens", "ggml.scores": "scores", "ggml.token_type": "token_type",
             "ggml.merges": "merges"}  # fmt: skip
    found = {new: fields[f"tokenizer.{old}"] for old, new in names.items()
             if f"tokenizer.{old}" in fields}  # fmt: skip
    return gguf.convert_gguf_tokenizer(fields["general.architecture"], found)[0]


def test_merges_derived_from_scores_equal_those_of_transformers() -> None:
    base = pytest.importorskip("transformers.tokenization_utils_base")
    fields: Any = sentencepiece_fields()
    tokens = fields["tokenizer.ggml.tokens"]
    vocab = {token: index for index, token in enumerate(tokens)}
    rank = dict(zip(tokens, fields["tokenizer.ggml.scores"], strict=True))
    assert gguf_vocab.derive_merges(vocab, rank) == base.generate_merges(vocab, rank)


@pytest.mark.parametrize("fields", [byte_level_fields(), sentencepiece_fields()])
def test_control_strings_become_control_tokens_only_when_asked(fields: dict[str, object]) -> None:
    tokenizer = Tokenizer.from_gguf(fields)
    name = tokenizer.token(2)
    assert name is not None
    assert 2 in tokenizer.special_ids
    assert 2 in tokenizer.encode(f"a{name}b", special=True, bos=False)
    typed = tokenizer.encode(f"a{name}b", special=False, bos=False)
    assert not set(typed) & tokenizer.special_ids - {3}
    again = tokenizer.encode(f"a{name}b", special=True, bos=False)
    assert 2 in again  # the plain call left no trace


def test_bos_is_added_once() -> None:
    tokenizer = Tokenizer.from_gguf(sentencepiece_fields())
    assert tokenizer.add_bos
    assert tokenizer.encode("the", special=True)[:2].count(2) == 1
    assert tokenizer.encode("<bos>the", special=True)[:2].count(2) == 1
    assert tokenizer.encode("the", special=True, bos=False).count(2) == 0
    assert tokenizer.encode("", special=True) == [2]


def test_a_folder_says_its_ends_its_bos_and_its_template(tmp_path: Path) -> None:
    llama3_folder(tmp_path, chat_template="{{ messages }}")
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [0, 2]}', "utf-8")
    tokenizer = Tokenizer.from_folder(tmp_path)
    assert (tokenizer.bos_id, tokenizer.add_bos) == (1, True)
    assert tokenizer.eos_id == 2
    assert tokenizer.eos_ids == {0, 2}
    assert tokenizer.template == "{{ messages }}"
    assert tokenizer.encode("a", special=True)[0] == 1
    (tmp_path / "chat_template.jinja").write_text("its own file wins", "utf-8")
    assert Tokenizer.from_folder(tmp_path).template == "its own file wins"


def test_an_explicit_add_bos_token_overrides_the_post_processor(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_folder(llama3_folder(tmp_path, add_bos_token=False))
    assert not tokenizer.add_bos
    assert tokenizer.encode("a", special=True)[0] != 1


def test_the_same_vocabulary_is_recognised_across_formats(tmp_path: Path) -> None:
    fields = byte_level_fields("llama-bpe")
    from_gguf = Tokenizer.from_gguf(fields)
    from_folder = Tokenizer.from_folder(llama3_folder(tmp_path))
    assert same_vocabulary(from_gguf, from_folder)
    assert from_gguf.vocabulary_digest() == from_folder.vocabulary_digest()


def test_two_vocabularies_of_equal_size_but_other_strings_differ() -> None:
    fields = byte_level_fields()
    tokens: Any = fields["tokenizer.ggml.tokens"]
    a, b = tokens.index("!"), tokens.index('"')
    swapped = list(tokens)
    swapped[a], swapped[b] = swapped[b], swapped[a]
    left = Tokenizer.from_gguf(fields)
    right = Tokenizer.from_gguf({**fields, "tokenizer.ggml.tokens": swapped})
    assert left.vocab_size == right.vocab_size
    assert not same_vocabulary(left, right)


def test_wrap_takes_a_transformers_tokenizer_and_leaves_it_alone(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(llama3_folder(tmp_path) / "tokenizer.json"),
        bos_token=MARKED[1],
        eos_token=MARKED[2],
    )
    theirs.chat_template = "{{ bos_token }}"
    ours = Tokenizer.wrap(theirs)
    for text in TEXTS:
        assert ours.encode(text, special=True) == theirs.encode(text) or text.startswith("<|im_s")
    assert ours.eos_ids == {2}
    assert ours.template == "{{ bos_token }}"
    assert theirs.backend_tokenizer.encode_special_tokens is False
    with pytest.raises(ModelCorrupt, match="cannot be wrapped"):
        Tokenizer.wrap(object())


@settings(max_examples=60)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40))
def test_any_text_decodes_to_itself_in_both_families(text: str) -> None:
    for tokenizer in (BYTE_LEVEL, GEMMA_LIKE):
        ids = tokenizer.encode(text, special=False)
        spelled = text.replace("\u2581", " ") if tokenizer is GEMMA_LIKE else text
        assert tokenizer.decode(ids) == spelled


BYTE_LEVEL = Tokenizer.from_gguf(byte_level_fields())
GEMMA_LIKE = Tokenizer.from_gguf(sentencepiece_fields("gemma3"))


def test_bytes_of_single_tokens_are_exact() -> None:
    assert GEMMA_LIKE.token_bytes(4 + 0xE2) == b"\xe2"
    assert GEMMA_LIKE.token_bytes(4 + 256) == b" the"
    assert BYTE_LEVEL.token_bytes(2) == b"<|im_end|>"
    assert BYTE_LEVEL.token_bytes(BYTE_LEVEL.vocab_size + 5) == b""
    assert BYTE_LEVEL.token_bytes(-1) == b""
    assert BYTE_LEVEL.id_of("<|im_end|>") == 2


def test_half_a_character_is_refused_by_name() -> None:
    with pytest.raises(RequestError, match="lone surrogate"):
        BYTE_LEVEL.encode("a\ud800b", special=False)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"tokenizer.ggml.pre": "unheard-of"}, ModelUnsupported, "unheard-of"),
        ({"tokenizer.ggml.model": "rwkv"}, ModelUnsupported, "rwkv"),
        ({"tokenizer.ggml.tokens": None}, ModelCorrupt, "tokenizer.ggml.tokens"),
        ({"tokenizer.ggml.token_type": [1]}, ModelCorrupt, "token_type"),
        ({"tokenizer.ggml.merges": ["a", "b"]}, ModelCorrupt, "merges"),
    ],
)
def test_a_vocabulary_outpace_does_not_know_is_refused(
    change: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Tokenizer.from_gguf({**byte_level_fields(), **change})


def test_folders_without_a_readable_tokenizer_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelCorrupt, match=r"no tokenizer\.json"):
        Tokenizer.from_folder(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{", "utf-8")
    with pytest.raises(ModelCorrupt, match="not a readable tokenizer"):
        Tokenizer.from_folder(tmp_path)


def test_a_decoder_whose_text_is_not_joined_bytes_is_refused(tmp_path: Path) -> None:
    backend = gguf_vocab.build(byte_level_fields())
    backend.decoder = decoders.WordPiece()
    backend.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ModelUnsupported, match="WordPiece"):
        Tokenizer.from_folder(tmp_path)
