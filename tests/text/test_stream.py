"""Text comes in whole characters, ends where it must, and no grouping of tokens changes it."""

import random
from collections.abc import Sequence as Seq

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outpace.errors import RequestError
from outpace.text.stream import StopStrings, StopWatch, TextStream
from outpace.text.tokenizer import Tokenizer
from text.vocabularies import byte_level_fields, sentencepiece_fields

BYTE_LEVEL = Tokenizer.from_gguf(byte_level_fields())
LLAMA_LIKE = Tokenizer.from_gguf(sentencepiece_fields())
GEMMA_LIKE = Tokenizer.from_gguf(sentencepiece_fields("gemma3"))
ALL = (BYTE_LEVEL, LLAMA_LIKE, GEMMA_LIKE)

families = st.sampled_from(ALL)
words = st.text(alphabet="ab ", min_size=1, max_size=4)


def pieces(tokenizer: Tokenizer, ids: Seq[int], sizes: Seq[int], stop: Seq[str] = ()) -> list[str]:
    """The pieces of a stream that is fed `ids` in groups of the given sizes, cyclically."""
    stream, out, at = TextStream(tokenizer, stop), list[str](), 0
    while at < len(ids):
        size = sizes[len(out) % len(sizes)]
        out.append(stream.push(ids[at : at + size]))
        at += size
    return [*out, stream.flush()]


def reference(text: str, stop: Seq[str]) -> str:
    """The definition, by brute force: the first end, and of those there the longest."""
    for end in range(1, len(text) + 1):
        found = [word for word in stop if text[:end].endswith(word)]
        if found:
            return text[: end - max(map(len, found))]
    return text


@settings(max_examples=150)
@given(families, st.data())
def test_any_ids_in_any_groups_join_to_the_decoded_text(
    tokenizer: Tokenizer, data: st.DataObject
) -> None:
    ids = data.draw(st.lists(st.integers(-1, tokenizer.vocab_size + 2), max_size=30))
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    assert "".join(pieces(tokenizer, ids, sizes)) == tokenizer.decode(ids)


@settings(max_examples=100)
@given(families, st.text(alphabet="aé日🎉 \n", max_size=20), st.integers(1, 4))
def test_pieces_of_real_text_are_never_broken_characters(
    tokenizer: Tokenizer, text: str, size: int
) -> None:
    ids = tokenizer.encode(text, special=False, bos=False)
    out = pieces(tokenizer, ids, [size])
    assert "".join(out) == tokenizer.decode(ids)
    assert all("\ufffd" not in piece for piece in out)


@settings(max_examples=300)
@given(
    families, st.text(alphabet="ab ", max_size=30), st.lists(words, max_size=4), st.integers(1, 4)
)
def test_the_text_ends_before_the_stop_string_that_completes_first(
    tokenizer: Tokenizer, text: str, stop: list[str], size: int
) -> None:
    ids = tokenizer.encode(text, special=False, bos=False)
    shown = tokenizer.decode(ids)
    assert "".join(pieces(tokenizer, ids, [size], stop)) == reference(shown, stop)


@settings(max_examples=200)
@given(families, st.text(alphabet="ab ", max_size=30), st.lists(words, min_size=1, max_size=4))
def test_ids_and_text_end_at_the_same_token(
    tokenizer: Tokenizer, text: str, stop: list[str]
) -> None:
    ids = tokenizer.encode(text, special=False, bos=False)
    watch, stream = StopWatch(tokenizer, stop), TextStream(tokenizer, stop)
    for n, token in enumerate(ids, start=1):
        completed = watch.completes(token)
        stream.push([token])
        assert completed == stream.stopped
        assert completed == any(word in tokenizer.decode(ids[:n]) for word in stop)
        if completed:
            break


def test_what_is_shown_never_has_to_be_taken_back() -> None:
    rng = random.Random(5)
    for _ in range(300):
        stop = ["".join(rng.choices("ab", k=rng.randint(1, 5))) for _ in range(rng.randint(1, 3))]
        text = "".join(rng.choices("abc", k=30))
        ids = BYTE_LEVEL.encode(text, special=False)
        shown = ""
        stream = TextStream(BYTE_LEVEL, stop)
        for token in ids:
            shown += stream.push([token])
            assert reference(text, stop).startswith(shown)
            assert not stream.stopped or shown == reference(text, stop)
        assert shown + stream.flush() == reference(text, stop)


def test_a_partial_match_is_held_back_and_given_when_it_fails() -> None:
    stream = TextStream(GEMMA_LIKE, ["</end>"])
    assert stream.push(GEMMA_LIKE.encode("one</en", special=False, bos=False)) == "one"
    assert stream.push(GEMMA_LIKE.encode("x", special=False, bos=False)) == "</enx"
    assert stream.push(GEMMA_LIKE.encode("</end", special=False, bos=False)) == ""
    assert stream.flush() == "</end"
    assert stream.flush() == ""


def test_nothing_follows_a_stop_string() -> None:
    stream = TextStream(BYTE_LEVEL, ["stop"])
    ids = BYTE_LEVEL.encode("go stop on", special=False)
    assert stream.push(ids) + stream.push(ids) + stream.flush() == "go "
    assert stream.stopped


def test_an_invalid_tail_is_shown_as_a_replacement_character() -> None:
    ids = [GEMMA_LIKE.encode("a", special=False, bos=False)[0], 4 + 0xF0, 4 + 0x9F]
    stream = TextStream(GEMMA_LIKE)
    assert stream.push(ids) == "a"
    assert stream.flush() == "\ufffd"
    assert GEMMA_LIKE.decode(ids) == "a\ufffd"


def test_control_tokens_are_left_out_unless_shown() -> None:
    ids = [*BYTE_LEVEL.encode("a", special=False), 2]
    assert TextStream(BYTE_LEVEL).push(ids) == "a"
    assert TextStream(BYTE_LEVEL, show_special=True).push(ids) == "a<|im_end|>"
    assert StopWatch(BYTE_LEVEL, ["<|im_end|>"], show_special=True).completes(2)
    assert not StopWatch(BYTE_LEVEL, ["<|im_end|>"]).completes(2)


def test_a_continued_text_keeps_its_first_space() -> None:
    ids = LLAMA_LIKE.encode("the", special=False, bos=False)
    assert TextStream(LLAMA_LIKE).push(ids) == "the"
    assert TextStream(LLAMA_LIKE, continues=True).push(ids) == " the"


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(RequestError, match="stop string is empty"):
        StopStrings(["a", ""])
