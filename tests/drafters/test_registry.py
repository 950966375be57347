"""The registry: names lead to drafters, wrong ones to an error that helps."""

import pytest

from outpace.drafters import registry
from outpace.errors import ConfigError


@pytest.mark.parametrize("name", ["none", "lookup"])
def test_a_name_makes_its_drafter(name: str) -> None:
    assert registry.make(name).name == name


def test_a_misspelt_name_is_refused_with_the_closest_one() -> None:
    with pytest.raises(ConfigError, match="did you mean lookup"):
        registry.make("lokup")


def test_an_argument_nobody_reads_is_refused() -> None:
    with pytest.raises(ConfigError, match="takes no argument"):
        registry.make("lookup:7")


def test_an_entry_that_leads_nowhere_names_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.DRAFTERS, "broken", "outpace.drafters.nowhere:make")
    with pytest.raises(ConfigError, match="nowhere"):
        registry.make("broken")
