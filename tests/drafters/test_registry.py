"""The registry: names lead to drafters, wrong ones to an error that helps."""

import pytest

from outpace.drafters import registry
from outpace.errors import ConfigError
from outpace.runtimes.toy import TableRuntime, random_table


@pytest.mark.parametrize("name", ["none", "lookup", "suffix", "auto", "mix:lookup+suffix"])
def test_a_name_makes_its_drafter(name: str) -> None:
    assert registry.make(name).name == name


@pytest.mark.parametrize(
    ("wrong", "meant"), [("lokup", "lookup"), ("sufix", "suffix"), ("modle:x", "model")]
)
def test_a_misspelt_name_is_refused_with_the_closest_one(wrong: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean {meant}"):
        registry.make(wrong)


@pytest.mark.parametrize("spec", ["lookup:7", "none:x", "auto:fast", "suffix:1"])
def test_an_argument_nobody_reads_is_refused(spec: str) -> None:
    with pytest.raises(ConfigError, match="takes no argument"):
        registry.make(spec)


@pytest.mark.parametrize("spec", ["mix", "mix:", "mix:lookup+lookup", "mix:auto+suffix"])
def test_a_mix_names_each_drafter_once(spec: str) -> None:
    with pytest.raises(ConfigError, match="each drafter once"):
        registry.make(spec)


def test_a_model_is_loaded_by_its_reference_and_guesses_for_the_target() -> None:
    words = [bytes([65 + i]) for i in range(7)]
    table = random_table(7, seed=1)
    asked: list[str] = []

    def load(ref: str) -> registry.Loaded:
        asked.append(ref)
        return registry.Loaded(runtime=TableRuntime(table, vocab_size=7), vocabulary=words)

    target = TableRuntime(table, vocab_size=7).traits
    context = registry.Context(target=target, vocabulary=words, load=load)
    drafter = registry.make("mix:lookup+model:some/name", context)
    assert asked == ["some/name"]
    assert drafter.name == "mix:lookup+model:some/name"


@pytest.mark.parametrize(("spec", "needs"), [("model:", "write model:NAME"), ("model:x", "vocab")])
def test_a_model_without_what_it_needs_is_refused(spec: str, needs: str) -> None:
    with pytest.raises(ConfigError, match=needs):
        registry.make(spec)


def test_an_entry_that_leads_nowhere_names_itself() -> None:
    with pytest.raises(ConfigError, match=r"'broken' .* 'outpace\.drafters\.nowhere:make'"):
        registry.imported("broken", "outpace.drafters.nowhere:make")
