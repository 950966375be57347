"""A GGUF file becomes the model it was written from: names, permutations, offsets, settings."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from outpace.errors import ModelCorrupt, ModelUnsupported
from outpace.models.resolve import resolve
from outpace.runtimes.transformers_load import open_runtime
from runtimes import tiny

TEXT = [5, 9, 40, 3, 17, 22, 8, 11, 2, 60, 31, 7]  # longer than the sliding window


def write(
    path: Path, name: str, *, fields: dict[str, str] | None = None, drop: str = "",
    extra: bool = False,
) -> Any:  # fmt: skip
    """Write a tiny model as llama.cpp's converter would; returns the model."""
    import gguf

    model = tiny.build(settings_of(name))
    config, arch = model.config, name
    writer = gguf.GGUFWriter(path, arch)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.head_dim if name != "qwen2" else 8)
    writer.add_key_length(8)
    writer.add_eos_token_id(1)
    if name == "gemma3":
        writer.add_sliding_window(config.sliding_window)
    for key, value in (fields or {}).items():
        writer.add_string(key, value)
    enum = next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == arch)
    table = gguf.get_tensor_name_map(enum, config.num_hidden_layers)
    for ours, tensor in model.state_dict().items():
        stem, _, suffix = ours.rpartition(".")
        if (stem == "lm_head" and config.tie_word_embeddings) or (drop and drop in ours):
            continue
        values = tensor.numpy()
        if name == "llama" and ("q_proj" in ours or "k_proj" in ours):
            heads = len(values) // 8
            rows = values.reshape(heads, 2, 4, -1).swapaxes(1, 2)
            values = np.ascontiguousarray(rows).reshape(values.shape)
        if name == "gemma3" and "norm" in ours:
            values = values + 1
        writer.add_tensor(f"{table.get_name(stem)}.{suffix}", values)
    if extra:
        writer.add_tensor("blk.0.attn_q.bias", np.zeros(32, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model


def settings_of(name: str) -> Any:
    """A configuration whose every setting a GGUF file can say."""
    if name != "gemma3":
        return tiny.config(name)
    import transformers

    kinds = ["sliding_attention"] * 4  # every sixth layer of a Gemma 3 sees everything
    return transformers.Gemma3TextConfig(
        **{**tiny.SIZES, "sliding_window": tiny.WINDOW, "layer_types": kinds}
    )


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3", "gemma3"])
def test_a_gguf_file_gives_back_the_model_it_was_written_from(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.gguf"
    model = write(path, name)
    runtime = open_runtime(resolve(str(path)), dtype="float32")
    assert runtime.traits.eos_ids == {1}
    assert runtime.traits.context_tokens == 96
    assert runtime.traits.vocab_size == tiny.VOCAB
    with torch.no_grad():
        truth = model(input_ids=torch.tensor([TEXT]), use_cache=False).logits[0, -1]
    from outpace.core.score import Rows

    runtime.open(0, TEXT)
    runtime.reserve(0, len(TEXT))
    rows = Rows(key=0, tokens=TEXT, parents=range(-1, len(TEXT) - 1), asked=[len(TEXT) - 1])
    found = runtime.extend([rows])[0].logits_AV
    assert found is not None
    assert float((found[0] - truth).abs().max()) < 1e-4


def test_rope_scalings_the_tables_lose_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "scaled.gguf"
    write(path, "llama", fields={"llama.rope.scaling.type": "yarn"})
    with pytest.raises(ModelUnsupported, match=r"rotary positions \(yarn\)"):
        open_runtime(resolve(str(path)))


def test_tensors_without_a_place_are_refused_not_dropped(tmp_path: Path) -> None:
    path = tmp_path / "biased.gguf"
    write(path, "llama", extra=True)
    with pytest.raises(ModelUnsupported, match=r"no place for \(blk\.0\.attn_q\.bias\)"):
        open_runtime(resolve(str(path)), dtype="float32")


def test_tensors_the_file_lacks_are_not_filled_with_noise(tmp_path: Path) -> None:
    path = tmp_path / "short.gguf"
    write(path, "llama", drop="layers.3.mlp.up_proj")
    with pytest.raises(ModelCorrupt, match=r"lacks 1 tensors .*layers\.3\.mlp\.up_proj"):
        open_runtime(resolve(str(path)), dtype="float32")


def test_other_architectures_are_refused_by_name(tmp_path: Path) -> None:
    import gguf

    path = tmp_path / "other.gguf"
    writer = gguf.GGUFWriter(path, "mamba")
    writer.add_tensor("token_embd.weight", np.zeros((4, 4), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ModelUnsupported, match=r"'mamba'.*llama, qwen2, qwen3, gemma3"):
        open_runtime(resolve(str(path)))
