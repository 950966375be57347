"""A file is what its bytes say it is, and nothing that could run is ever taken for weights."""

import json
import pickle
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.tiny import safetensors_bytes, tensor, write_folder, write_gguf
from outpace.errors import ModelCorrupt, OutpaceError, UnsafeFile
from outpace.models.formats.check import file_kind
from outpace.models.formats.gguf_header import read_gguf
from outpace.models.formats.safetensors_header import read_safetensors


def test_a_header_that_begins_like_a_pickle_is_still_safetensors(tmp_path: Path) -> None:
    """A header of 0x0280 bytes makes the file begin with the two bytes of a protocol-2 pickle."""
    path = tmp_path / "x.safetensors"
    raw = json.dumps({"a": tensor(0, 4, [1])}).encode().ljust(0x280)
    path.write_bytes(safetensors_bytes(raw, bytes(4)))
    assert path.read_bytes()[:2] == b"\x80\x02"
    assert read_safetensors(path).tensors[0].shape == (1,)


@pytest.mark.parametrize("name", ["x.bin", "x.pt", "x.safetensors", "x.gguf", "x"])
@pytest.mark.parametrize("how", ["protocol2", "protocol4", "zip"])
def test_a_pickle_is_refused_whatever_its_name(tmp_path: Path, name: str, how: str) -> None:
    path = tmp_path / name
    if how == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("model/data.pkl", pickle.dumps({}))
    else:
        path.write_bytes(pickle.dumps({"a": 1.5}, protocol=int(how[-1])))
    with pytest.raises(UnsafeFile, match=r"safetensors and GGUF.*save_pretrained"):
        file_kind(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid", "git lfs pull"),
        (b"<!DOCTYPE html><html>", "web page"),
        (b"", "empty"),
    ],
)
def test_what_often_lies_in_place_of_weights_is_recognised(
    tmp_path: Path, content: bytes, said: str
) -> None:
    for name in ("x.gguf", "x.safetensors"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ModelCorrupt, match=said):
            file_kind(tmp_path / name)


@settings(
    max_examples=300,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data(), which=st.sampled_from(["gguf", "safetensors"]))
def test_random_damage_is_read_or_refused_by_name(
    data: st.DataObject, which: str, tmp_path: Path
) -> None:
    path = tmp_path / f"fuzz.{which}"
    if which == "gguf":
        good = write_gguf(path).read_bytes()
        path.unlink()
    else:
        good = (write_folder(tmp_path / "f") / "model.safetensors").read_bytes()
    damaged = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, min(len(good), 900) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(good))) if data.draw(st.booleans()) else len(good)
    path.write_bytes(damaged[:cut])
    with suppress(OutpaceError):
        read_gguf(path) if which == "gguf" else read_safetensors(path)
