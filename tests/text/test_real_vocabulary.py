"""The vocabulary of SmolLM2, as its GGUF file carries it, on real and on random text."""

import os
import random
from pathlib import Path
from typing import Any

import pytest

from outpace.models.formats.gguf_header import read_gguf
from outpace.models.pull import default_cache_dir
from outpace.text.stream import TextStream
from outpace.text.template import ChatTemplate
from outpace.text.tokenizer import Tokenizer
from text.vocabularies import TEXTS

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def path() -> Path:
    folder = default_cache_dir(os.environ) / "models" / "smollm2-135m"
    found = sorted(folder.glob("*.gguf"))
    if not found:
        pytest.skip("smollm2-135m is not in the cache; `make model` brings it")
    return found[0]


@pytest.fixture(scope="module")
def tokenizer(path: Path) -> Tokenizer:
    return Tokenizer.from_gguf(read_gguf(path).metadata)


def samples() -> list[str]:
    """Hard texts, this very file, and characters at random."""
    rng = random.Random(0)

    def char() -> str:
        kinds = ((32, 127), (0xA0, 0x3000), (0x1F300, 0x1F700), (10, 11))
        return chr(rng.randrange(*rng.choice(kinds)))

    drawn = ["".join(char() for _ in range(40)) for _ in range(100)]
    return [*TEXTS, Path(__file__).read_text("utf-8"), *drawn]


def test_ids_equal_those_of_the_model_s_own_rules(tokenizer: Tokenizer, path: Path) -> None:
    """Each digit is cut out first, then GPT-2's rule: the tokenizer.json of SmolLM2.

    transformers' conversion of GGUF files leaves the digits out, and so splits the line breaks
    before a digit differently; everything else of it is compared here.
    """
    backend: Any = pytest.importorskip("tokenizers")
    gguf = pytest.importorskip("transformers.integrations.gguf")
    from text.test_tokenizer import convert

    theirs = convert(gguf, read_gguf(path).metadata)
    cuts = backend.pre_tokenizers
    theirs.pre_tokenizer = cuts.Sequence(
        [cuts.Digits(individual_digits=True), cuts.ByteLevel(add_prefix_space=False)]
    )
    for text in samples():
        expected = theirs.encode(text, add_special_tokens=False).ids
        assert tokenizer.encode(text, special=True) == expected


def test_every_text_comes_back_and_streams_in_whole_characters(tokenizer: Tokenizer) -> None:
    for text in samples():
        ids = tokenizer.encode(text, special=False)
        stream = TextStream(tokenizer)
        pieces = [stream.push([index]) for index in ids]
        assert "".join(pieces) == text
        assert stream.flush() == ""


def test_the_chat_template_and_its_control_tokens(tokenizer: Tokenizer) -> None:
    assert tokenizer.template is not None
    text = ChatTemplate(tokenizer.template).render([{"role": "user", "content": "Hi"}])
    assert text.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    ids = tokenizer.encode_rendered(text)
    assert (ids[0], ids.count(1), ids.count(2)) == (1, 3, 2)
    assert tokenizer.eos_ids == {2}
    assert tokenizer.vocab_size == 49152
