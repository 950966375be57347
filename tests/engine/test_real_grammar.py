"""Structured answers of SmolLM2: they parse, and guesses do not show."""

import os
from collections.abc import Iterator

import pytest

import outpace
from engine.grammars import WANTED
from outpace.api import Model
from outpace.models.pull import default_cache_dir

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    if not (default_cache_dir(os.environ) / "models" / "smollm2-135m").is_dir():
        pytest.skip("smollm2-135m is not in the cache; `make model` brings it")
    with outpace.load("smollm2-135m") as loaded:
        yield loaded


@pytest.mark.parametrize("name", WANTED)
def test_a_real_models_answers_parse_and_guesses_do_not_show(model: Model, name: str) -> None:
    grammar, check = WANTED[name]
    for temperature, seed in ((0.0, None), (1.0, 1), (1.0, 2)):
        with_guesses, plain = (
            model.generate(
                "Give an example.", grammar=grammar, speculate=speculate, max_tokens=150,
                temperature=temperature, seed=seed,
            )
            for speculate in (True, False)
        )  # fmt: skip
        assert with_guesses.finish_reason == "eos"
        assert with_guesses.token_ids == plain.token_ids
        check(with_guesses.text)
