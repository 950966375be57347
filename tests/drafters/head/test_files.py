"""A head on disk: what is written is read again, and what does not fit is refused by name."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from drafters.head.tiny import SHAPE, random_values, tiny_folder, tiny_head
from outpace.drafters.head.files import (
    CONFIG,
    WEIGHTS,
    HeadShape,
    folder_of,
    read_config,
    read_head,
    weights_digest,
)
from outpace.errors import ConfigError


def test_weights_are_those_written_but_for_rounding() -> None:
    head, wanted = tiny_head(), random_values(SHAPE, 0)
    for name, values in wanted.items():
        found = head.values(name)
        assert found.shape == values.shape
        assert np.abs(found - values).max() < np.abs(values).max() / 100
    assert head.config.greedy_sharpness == 1.25
    assert head.config.shape == SHAPE


@pytest.mark.parametrize(
    ("name", "value"),
    [("hidden", 33), ("hidden", 0), ("taps", ()), ("draft", 0), ("draft", 99), ("inner", 16)],
)
def test_impossible_sizes_are_refused(name: str, value: object) -> None:
    sizes = {
        "hidden": 32, "taps": (1,), "embed": 32, "inner": 32, "root_inner": 32, "vocab": 9,
        "draft": 5, name: value,
    }  # fmt: skip
    with pytest.raises(ConfigError, match="multiples of 32"):
        HeadShape(**sizes)  # type: ignore[arg-type]


@pytest.mark.parametrize("what", ["format", "shape", "no file", "no weights", "other weights"])
def test_a_damaged_head_is_refused(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "head"
    shutil.copytree(tiny_folder(), folder)
    config = json.loads((folder / CONFIG).read_text())
    if what == "format":
        config["format"] = "something else"
    if what == "shape":
        config["shape"].pop("inner")
    if what == "other weights":
        config["shape"]["inner"] = 96
    (folder / CONFIG).write_text(json.dumps(config))
    if what == "no file":
        (folder / CONFIG).unlink()
    if what == "no weights":
        (folder / WEIGHTS).unlink()
    with pytest.raises(ConfigError, match="head"):
        read_head(folder)


def test_a_digest_is_of_the_weights_whatever_runs_them() -> None:
    assert weights_digest("abc-compiled q4") == weights_digest("abc-torch bf16") == "abc"


def test_shipped_heads_can_be_read_and_fit_in_sixteen_megabytes() -> None:
    import outpace.drafters.head as package

    assert package.__file__ is not None
    folders = sorted((Path(package.__file__).parent / "shipped").glob("*/"))
    for folder in folders:
        config = read_config(folder)
        head = read_head(folder)
        assert folder_of("", config.digest) == folder
        assert (folder / WEIGHTS).stat().st_size <= 16 * 2**20
        assert len(head.ids_D) == config.shape.draft
        assert config.training
