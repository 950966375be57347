"""Where a pass goes: parts add up, the floor counts bytes, impossible questions are named."""

from pathlib import Path

import pytest

from outpace.errors import ConfigError
from outpace.runtimes.native.anatomy import PARTS, dissect
from outpace.runtimes.native.compiled import available
from outpace.runtimes.native.load import Wish, load_decoder
from runtimes.native.models import random_model, saved

needs_kernels = pytest.mark.skipif(not available()[0], reason=available()[1])


@pytest.mark.parametrize("backend", ["torch", pytest.param("compiled", marks=needs_kernels)])
def test_parts_add_up_and_the_floor_is_bytes_over_bandwidth(backend: str, tmp_path: Path) -> None:
    files = saved(random_model("llama wide"), tmp_path)
    loaded = load_decoder(files, Wish(backend=backend, n_pages=4, page_size=16, threads=1))
    one, four = dissect(loaded, rows=(1, 4), context_tokens=40)
    for found in (one, four):
        assert set(found.parts_s) == set(PARTS)
        assert sum(found.parts_s.values()) == pytest.approx(found.pass_s)
        assert min(found.parts_s["matrices"], found.parts_s["attention"]) > 0
    assert one.kv_bytes == 40 * loaded.kv_bytes_per_token
    assert one.floor_s * one.bytes_per_s == pytest.approx(loaded.weight_bytes + one.kv_bytes)
    assert one.times_floor == pytest.approx(one.pass_s / one.floor_s)
    with pytest.raises(ConfigError, match=r"60 rows after 10 tokens; .* take 64 together"):
        dissect(loaded, rows=(60,), context_tokens=10)
    with pytest.raises(ConfigError, match="at least 1 row"):
        dissect(loaded, rows=(0,), context_tokens=10)
    loaded.decoder.close()
