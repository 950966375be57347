"""At temperature 0 and with a seed, guesses change no token of a text of 512."""

from dataclasses import replace

import pytest

from laws.equal import How, check_same_text, prompt, write
from laws.guessers import BOUGHS, CHAIN1, CHAIN3, ELBOW, TRIPLE, Pick
from laws.world import SKILLS, Skill
from outpace.core.draft import chain
from outpace.core.sampling import Sampling
from outpace.drafters.none import NoDrafter

N = 512
CHAIN8 = tuple(range(-1, 7))
SHAPES = {
    "chain1": CHAIN1, "chain3": CHAIN3, "chain8": CHAIN8, "elbow": ELBOW, "boughs": BOUGHS,
    "triple": TRIPLE,
}  # fmt: skip
WAYS = {
    "one": How(),
    "wavering depth": How(shape=CHAIN8, wavering=True),
    "chunks of 7": How(shape=ELBOW, chunk=7),
    "chunks of 1": How(chunk=1),
    "batch of 3": How(shape=ELBOW, n_batch=3),
    "batch of 3, chunks of 64, evictions": How(
        shape=CHAIN3, n_batch=3, chunk=64, evict_every=20, wavering=True
    ),
}
RICH = Sampling(
    temperature=0.9, seed=21, top_k=12, top_p=0.9, min_p=0.02, repetition_penalty=1.2,
    presence_penalty=0.3, frequency_penalty=0.1, logit_bias={5: 1.0}, banned=((1, 2), (4,)),
    min_tokens=N, max_tokens=N,
)  # fmt: skip


@pytest.mark.parametrize("skill", SKILLS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_cold_text_is_the_same_with_any_guesses(shape: str, skill: Skill) -> None:
    check_same_text(How(shape=SHAPES[shape], skill=skill), None, N)


@pytest.mark.parametrize("skill", SKILLS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_seeded_text_is_the_same_with_any_guesses(shape: str, skill: Skill) -> None:
    check_same_text(How(shape=SHAPES[shape], skill=skill, pick="coupled"), 11, N)


@pytest.mark.parametrize("seed", [None, 0, 2**64 - 1])
@pytest.mark.parametrize("way", WAYS)
def test_nothing_about_the_passes_shows_in_the_text(way: str, seed: int | None) -> None:
    pick: Pick = "chosen" if seed is None else "coupled"
    check_same_text(replace(WAYS[way], pick=pick), seed, N)


@pytest.mark.parametrize("pick", ["chosen", "coupled"])
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_every_processor_at_once_changes_nothing_about_it(temperature: float, pick: str) -> None:
    sampling = replace(RICH, temperature=temperature)
    how = How(shape=BOUGHS, pick="chosen" if pick == "chosen" else "coupled", n_batch=2)
    assert write(sampling, how) == write(sampling, how, NoDrafter())


def test_a_seeded_text_does_not_depend_on_its_neighbours_or_its_place() -> None:
    sampling = Sampling(temperature=0.8, seed=3, max_tokens=64)
    together = write(sampling, How(n_batch=3, pick="coupled"))
    assert together[0] == write(sampling, How(n_batch=1, pick="coupled"))[0]


def test_other_seeds_write_other_texts() -> None:
    texts = {
        tuple(write(Sampling(temperature=0.8, seed=seed, max_tokens=32), How())[0])
        for seed in range(8)
    }
    assert len(texts) == 8


def test_the_prompts_of_a_batch_differ() -> None:
    assert len({chain(prompt(i)).tokens for i in range(3)}) == 3
