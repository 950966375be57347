"""Loading decides with reasons, counts bytes first, and refuses by name."""

from pathlib import Path

import numpy as np
import pytest
import torch

from outpace.errors import CapabilityError, ConfigError, ContractError, MemoryShort
from outpace.models.weights import open_weights
from outpace.runtimes.native import memory
from outpace.runtimes.native.compiled import available
from outpace.runtimes.native.formats import choose_format, matrix_types
from outpace.runtimes.native.load import Wish, load_decoder
from outpace.runtimes.native.spec.names import Role
from outpace.runtimes.native.spec.read import read_spec
from runtimes.native.gguf_files import written
from runtimes.native.models import Part, in_chunks, one_pass, random_model, saved, text

needs_kernels = pytest.mark.skipif(not available()[0], reason=available()[1])


def kinds(*stored: str) -> dict[Role, str]:
    head = {Role(part="embed"): "Q8_0"}
    return head | {Role(part="q", layer=i): kind for i, kind in enumerate(stored)}


def test_auto_takes_the_smallest_format_that_keeps_a_files_blocks() -> None:
    def taken(*stored: str, device: str = "cpu") -> str:
        return choose_format("auto", kinds(*stored), backend="compiled", device=device).format

    assert taken("Q4_1", "Q4_0") == "q4"
    assert taken("Q4_K", "Q6_K") == "q8"
    assert taken("Q4_K", device="cuda") == "bf16"
    plain = {Role(part="embed"): "BF16", Role(part="q", layer=0): "BF16"}
    assert choose_format("auto", plain, backend="torch", device="cpu").format == "bf16"
    assert choose_format("auto", plain, backend="compiled", device="cpu").format == "q8"
    assert choose_format("q4", plain, backend="torch", device="cpu").reason == "asked for"


def test_formats_that_are_not_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"'int3'.*auto, fp32, bf16, q8, q4"):
        choose_format("int3", {}, backend="torch", device="cpu")
    with pytest.raises(ConfigError, match="on cuda use fp32 or bf16"):
        choose_format("q4", {}, backend="torch", device="cuda")
    with pytest.raises(ConfigError, match="on cuda use fp32 or bf16"):
        choose_format("q8-fine", {}, backend="torch", device="cuda")
    with pytest.raises(ConfigError, match=r"'q4-fine' need the compiled kernels.*use q4"):
        choose_format("q4-fine", {}, backend="torch", device="cpu")


@needs_kernels
def test_fine_rows_are_another_model_on_the_same_weights(tmp_path: Path) -> None:
    files = saved(random_model("llama wide"), tmp_path)
    rows = np.arange(40, dtype=np.int32)

    def logits(weights: str) -> tuple[str, torch.Tensor]:
        wish = Wish(backend="compiled", weights=weights, n_pages=4, page_size=16, threads=1)
        loaded = load_decoder(files, wish)
        try:
            return loaded.identity, in_chunks(loaded.decoder, rows, [7])
        finally:
            loaded.decoder.close()

    (name, coarse), (fine_name, fine) = logits("q8"), logits("q8-fine")
    assert (name, fine_name) == ("compiled q8", "compiled q8-fine")
    _, bf16 = logits("bf16")
    assert (fine - bf16).abs().mean() < (coarse - bf16).abs().mean()


@pytest.mark.parametrize("weights", ["fp32", "bf16", "q8", "q4"])
@pytest.mark.parametrize("backend", ["torch", pytest.param("compiled", marks=needs_kernels)])
def test_needs_are_counted_a_little_high(weights: str, backend: str, tmp_path: Path) -> None:
    files = saved(random_model("llama wide"), tmp_path)
    wish = Wish(backend=backend, weights=weights, n_pages=3, page_size=16, threads=1)
    loaded = load_decoder(files, wish)
    opened = open_weights(files)
    spec, names = read_spec(opened)
    types = matrix_types(opened, names, spec)
    need = memory.needs(spec, types, loaded.format, n_slots=48)
    assert 0.9 * need.weights <= loaded.weight_bytes <= 1.01 * need.weights or (
        backend == "compiled" and loaded.weight_bytes <= need.weights
    )
    assert need.pool == 48 * loaded.kv_bytes_per_token


def test_too_large_is_found_before_loading(tmp_path: Path) -> None:
    files = saved(random_model("llama"), tmp_path)
    with pytest.raises(MemoryShort, match=r"keys and values.*fewer pages") as caught:
        load_decoder(files, Wish(n_pages=1 << 40, page_size=64))
    assert caught.value.needed_bytes > caught.value.free_bytes > 0


def test_a_pool_nobody_sized_takes_half_of_what_is_left_at_most(tmp_path: Path) -> None:
    opened = open_weights(saved(random_model("llama"), tmp_path))
    spec, names = read_spec(opened)
    need = memory.needs(spec, matrix_types(opened, names, spec), "bf16", n_slots=0)

    def pages(free_bytes: int) -> int:
        return memory.auto_pages(spec, need, free_bytes, page_size=64, weight_format="bf16")

    assert pages(1 << 40) == 8 * spec.context_tokens // 64
    page_bytes = 64 * memory.kv_bytes_per_token(spec, "bf16")
    assert pages(int((need.total + 10 * page_bytes) / 0.98)) in (4, 5)
    assert pages(0) == 1  # and then the check refuses


def test_free_memory_is_a_sane_number() -> None:
    assert 1 << 20 < memory.free_memory_bytes() < 1 << 63


def test_wishes_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    for wrong in ({"backend": "gpu"}, {"page_size": 0}, {"n_pages": 0}):
        with pytest.raises(ConfigError):
            Wish(**wrong)
    files = saved(random_model("llama"), tmp_path)
    with pytest.raises(CapabilityError, match=r"layers \[4\].*0 to 3"):
        load_decoder(files, Wish(hidden_layers=(4,), n_pages=1))
    if not torch.cuda.is_available():
        with pytest.raises(CapabilityError, match="no CUDA device"):
            load_decoder(files, Wish(device="cuda"))


@needs_kernels
def test_what_the_kernels_lack_goes_to_torch_and_says_why(tmp_path: Path) -> None:
    files = saved(random_model("llama biases"), tmp_path)
    loaded = load_decoder(files, Wish(n_pages=2, threads=1))
    assert loaded.backend == "torch"
    assert "biases in the feed-forward part" in loaded.description
    with pytest.raises(CapabilityError, match="biases"):
        load_decoder(files, Wish(n_pages=2, backend="compiled"))
    plain = load_decoder(saved(random_model("llama"), tmp_path / "b"), Wish(n_pages=2, threads=1))
    assert plain.backend == "compiled"
    plain.decoder.close()
    plain.decoder.close()
    with pytest.raises(ContractError):
        plain.decoder.forward(one_pass([_part()]))


def test_a_row_without_a_page_is_refused(tmp_path: Path) -> None:
    files = written(random_model("llama"), tmp_path / "m.gguf")
    decoder = load_decoder(files, Wish(backend="torch", n_pages=2, page_size=4)).decoder
    with pytest.raises(ContractError, match="no page"):
        decoder.forward(one_pass([_part(pages=(0, -1))]))


def _part(pages: tuple[int, ...] = (0, 1)) -> Part:
    return Part(tokens=text(6), n_cached=0, pages=np.array(pages, np.int32))
