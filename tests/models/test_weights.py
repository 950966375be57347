"""Bytes come out of a file as they lie in it, and values as the formats define them."""

import json
import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
import pytest
from safetensors.numpy import load_file

from models.tiny import safetensors_bytes, tensor, write_shards
from outpace.errors import ConfigError, ModelNotFound, ModelUnsupported
from outpace.models.resolve import resolve
from outpace.models.weights import open_weights


def test_gguf_values_are_those_of_the_gguf_package(gguf_file: Path) -> None:
    weights = open_weights(resolve(str(gguf_file)))
    assert weights.gguf["llama.block_count"] == 2
    assert weights.config == {}
    for theirs in gguf.GGUFReader(gguf_file).tensors:
        name = theirs.name
        shape = tuple(int(n) for n in theirs.shape[::-1])
        assert (weights.shape(name), weights.dtype(name)) == (shape, theirs.tensor_type.name)
        assert weights.raw(name).tobytes() == theirs.data.tobytes()
        values = weights.dequantized(name)
        assert values.dtype == np.float32
        assert values.shape == shape
        np.testing.assert_array_equal(
            values, gguf.dequantize(theirs.data, theirs.tensor_type).reshape(shape)
        )


def test_safetensors_values_are_those_of_the_safetensors_package(folder: Path) -> None:
    weights = open_weights(resolve(str(folder)))
    theirs = load_file(folder / "model.safetensors")
    assert set(weights.names()) == set(theirs)
    assert weights.config == {"model_type": "llama"}
    for name in ("a", "b"):
        np.testing.assert_array_equal(weights.raw(name).view(theirs[name].dtype), theirs[name])
        np.testing.assert_array_equal(weights.dequantized(name), theirs[name].astype(np.float32))
    with pytest.raises(ModelUnsupported, match="I64"):
        weights.dequantized("c")


def test_bfloat16_widens_exactly_and_odd_shapes_hold(folder: Path) -> None:
    header = {
        "bf": tensor(0, 4, [2], "BF16"),
        "one": tensor(4, 8, []),
        "none": tensor(8, 8, [0, 3]),
    }
    data = np.array([0x3F80, 0xC020], "<u2").tobytes() + np.float32(7).tobytes()
    (folder / "model.safetensors").write_bytes(safetensors_bytes(header, data))
    weights = open_weights(resolve(str(folder)))
    assert weights.dequantized("bf").tolist() == [1.0, -2.5]
    assert weights.dequantized("one").shape == ()
    assert weights.dequantized("one") == 7
    assert weights.dequantized("none").shape == (0, 3)


def test_raw_is_a_view_whose_changes_never_reach_the_file(gguf_file: Path) -> None:
    before = gguf_file.read_bytes()
    weights = open_weights(resolve(str(gguf_file)))
    first, again = weights.raw("q8.weight"), weights.raw("q8.weight")
    assert np.shares_memory(first, again)
    assert first.shape == (4, 2 * 34)
    first[:] = 0
    assert gguf_file.read_bytes() == before


def test_shards_read_as_one(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    write_shards(folder)
    weights = open_weights(resolve(str(folder)))
    assert weights.names() == ("a", "b")
    assert weights.dequantized("b").tolist() == [0.0, 0.0]


def test_an_unknown_tensor_and_a_vanished_file_are_named(gguf_file: Path) -> None:
    files = resolve(str(gguf_file))
    with pytest.raises(ConfigError, match=r"no tensor 'x'; they have 4"):
        open_weights(files).shape("x")
    gguf_file.unlink()
    with pytest.raises(ModelNotFound):
        open_weights(files)


def test_reading_weights_loads_no_torch(gguf_file: Path) -> None:
    script = (
        "import sys; from outpace.models.resolve import resolve; "
        "from outpace.models.weights import open_weights; "
        "w = open_weights(resolve(sys.argv[1])); [w.dequantized(n) for n in w.names()]; "
        "import json; print(json.dumps([m for m in ('torch', 'transformers') if m in sys.modules]))"
    )
    argv = [sys.executable, "-c", script, str(gguf_file)]
    environ = {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
