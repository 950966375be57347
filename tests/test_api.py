"""The Python API keeps its promises: same text, honest counts, nothing held after the end."""

from itertools import zip_longest

import pytest

import outpace
from outpace.control.limits import OFF
from outpace.core.sampling import Sampling
from outpace.errors import PromptTooLong, RequestError
from outpace.runtimes.toy import TableRuntime
from small import EOS, small_model


def idle(model: outpace.Model) -> None:
    assert isinstance(model.runtime, TableRuntime)
    model.runtime.check_integrity()
    assert model.engine.idle


@pytest.mark.parametrize(("temperature", "seed"), [(0, None), (0.7, 4)])
@pytest.mark.parametrize("drafter", ["lookup", "suffix", "auto"])
def test_the_text_is_the_same_with_and_without_guesses(
    temperature: float, seed: int | None, drafter: str
) -> None:
    model = small_model(drafter=drafter)
    with_guesses = model.generate("hello there", max_tokens=200, temperature=temperature, seed=seed)
    plain = model.generate(
        "hello there", max_tokens=200, temperature=temperature, seed=seed, speculate=False
    )
    assert with_guesses.token_ids == plain.token_ids
    assert with_guesses.text == plain.text
    assert with_guesses.promise == "same text"
    assert plain.stats.drafted == 0
    assert plain.drafter == "none"
    idle(model)


def test_counts_add_up() -> None:
    done = small_model().generate("a prompt, a prompt, a prompt", max_tokens=150)
    stats = done.stats
    assert done.completion_tokens == len(done.token_ids) == stats.completion_tokens
    assert stats.kept > 0, "the case was meant to have kept guesses"
    assert stats.acceptance_length == 1 + stats.kept / stats.rounds
    if done.finish_reason == "length":
        assert stats.rounds + stats.kept >= done.completion_tokens
    parts = stats.seconds
    whole = parts.load + parts.prefill + parts.draft + parts.score + parts.accept + parts.resample
    assert whole + parts.other == pytest.approx(parts.total)


def test_streamed_pieces_are_the_text() -> None:
    model = small_model()
    pieces = list(model.stream("hello", max_tokens=90, temperature=0.9, seed=11))
    assert "".join(pieces) == model.generate("hello", max_tokens=90, temperature=0.9, seed=11).text


def test_a_stopped_answer_keeps_what_it_had_and_frees_everything() -> None:
    model = small_model()
    generation = model.start("hello", Sampling(max_tokens=300))
    seen = [piece for _, piece in zip(range(3), generation, strict=False)]
    generation.close()
    done = generation.completion()
    assert done.finish_reason == "abort"
    assert done.text.startswith("".join(seen))
    idle(model)


def test_answers_may_be_read_in_turns() -> None:
    model = small_model()
    alone = [model.generate(p, max_tokens=60).text for p in ("first", "second")]
    a, b = (model.start(p, Sampling(max_tokens=60)) for p in ("first", "second"))
    for _ in zip_longest(a, b):
        pass
    assert [a.text, b.text] == alone
    idle(model)


def test_prompts_may_be_text_messages_or_ids() -> None:
    model = small_model()
    chat = model.encode("hi", system="be kind")
    same = model.encode(
        [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"}]
    )
    assert chat == same
    assert model.encode(chat) == chat
    assert model.encode("hi", raw=True) == model.tokenizer.encode("hi", special=True)


def test_bad_prompts_are_named() -> None:
    model = small_model(template=False)
    with pytest.raises(RequestError, match="no chat template"):
        model.generate("hi")
    with pytest.raises(RequestError, match="empty"):
        model.generate("", raw=True)
    with pytest.raises(PromptTooLong, match="at most 400"):
        model.generate("x" * 400, raw=True)
    with pytest.raises(RequestError, match="temperature"):
        model.generate("x", raw=True, temperature=float("nan"))
    idle(model)


def test_the_end_token_ends_text_and_ids_together() -> None:
    model = small_model()
    for seed in range(40):
        done = model.generate("go", max_tokens=300, temperature=1.5, seed=seed)
        if done.finish_reason == "eos":
            assert done.token_ids[-1] == EOS
            assert EOS not in done.token_ids[:-1]
            assert "<end>" not in done.text
            return
    pytest.fail("no text of the case ended by itself")


def test_a_stop_string_ends_text_and_ids_together() -> None:
    model = small_model()
    text = model.generate("hello", max_tokens=100).text
    stop = text[20:23]
    done = model.generate("hello", max_tokens=100, stop=(stop,))
    plain = model.generate("hello", max_tokens=100, stop=(stop,), speculate=False)
    assert done.finish_reason == "stop_string"
    assert done.text == text[: text.index(stop)] == plain.text
    assert done.token_ids == plain.token_ids


def test_off_limits_draft_nothing() -> None:
    model = small_model()
    generation = model.start("hello hello", Sampling(max_tokens=40), limits=OFF)
    for _ in generation:
        pass
    assert generation.completion().stats.drafted == 0


def test_an_answer_may_have_to_be_something() -> None:
    from outpace.text.grammar import spec

    model = small_model()
    colour = spec.choice(["red", "green", "grey"])
    done = model.generate("x", grammar=colour, temperature=1.0, seed=1)
    plain = model.generate("x", grammar=colour, temperature=1.0, seed=1, speculate=False)
    assert done.text in ("red", "green", "grey")
    assert done.token_ids == plain.token_ids
    assert "".join(model.stream("x", grammar=spec.regex("[ab]{4}"))).strip("ab") == ""
    with pytest.raises(RequestError, match="look-around"):
        model.generate("x", grammar=spec.regex("(?=a)b"))
