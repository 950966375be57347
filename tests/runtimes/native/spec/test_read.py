"""A spec is read right or not at all: what cannot be honoured is refused by name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from outpace.errors import ModelCorrupt, ModelUnsupported
from outpace.models.formats.check import TensorSpan
from outpace.models.weights import Weights, open_weights
from outpace.runtimes.native.spec.config import spec_from_config
from outpace.runtimes.native.spec.gguf import spec_from_gguf
from outpace.runtimes.native.spec.model import ModelSpec
from outpace.runtimes.native.spec.read import read_spec
from outpace.runtimes.native.spec.rope import make_rope
from runtimes.native.gguf_files import written
from runtimes.native.models import CASES, WINDOW, config, random_model, saved

LLAMA: dict[str, Any] = {
    "model_type": "llama", "vocab_size": 96, "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 4, "num_attention_heads": 4, "max_position_embeddings": 640,
    "num_key_value_heads": None,
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_frequencies_are_bit_equal_to_those_of_transformers(case: str) -> None:
    spec = spec_from_config(config(case).to_dict())
    rotary = random_model(case).model.rotary_emb
    for layer in spec.layers:
        if layer.rope is None:
            continue
        kind = "sliding_attention" if layer.window else "full_attention"
        name = f"{kind}_inv_freq" if "gemma3" in case else "inv_freq"
        scale = f"{kind}_attention_scaling" if "gemma3" in case else "attention_scaling"
        assert layer.rope.inv_freq == tuple(getattr(rotary, name).tolist())
        assert layer.rope.scale == getattr(rotary, scale)


def test_the_old_spelling_of_rotations_means_the_same() -> None:
    old = {**LLAMA, "rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 3.0}}
    new = {**LLAMA, "rope_parameters": {"rope_theta": 500.0, "rope_type": "linear", "factor": 3.0}}
    assert spec_from_config(old) == spec_from_config(new)
    gemma = {**LLAMA, "model_type": "gemma3_text", "sliding_window": 20}
    spelled = {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 3e4},
    }
    scaling = {"rope_type": "linear", "factor": 8.0}
    older = {**gemma, "rope_theta": 1e6, "rope_local_base_freq": 3e4, "rope_scaling": scaling}
    assert spec_from_config(older) == spec_from_config({**gemma, "rope_parameters": spelled})


def test_windows_fall_on_the_layers_the_family_says() -> None:
    def windows(**changes: object) -> list[int | None]:
        return [layer.window for layer in spec_from_config({**LLAMA, **changes}).layers]

    assert windows() == [None] * 4
    assert windows(model_type="mistral", sliding_window=9) == [9] * 4
    assert windows(model_type="mistral", sliding_window=None) == [None] * 4
    qwen: dict[str, object] = {"model_type": "qwen2", "sliding_window": 9, "max_window_layers": 3}
    assert windows(**qwen) == [None] * 4
    assert windows(**qwen, use_sliding_window=True) == [None, None, None, 9]
    gemma: dict[str, object] = {"model_type": "gemma3_text", "sliding_window": 9}
    assert windows(**gemma, sliding_window_pattern=2) == [9, None, 9, None]


def test_a_gemma_with_eyes_is_read_by_its_text_part() -> None:
    text = {"model_type": "gemma3_text", "hidden_size": 64, "intermediate_size": 96,
            "num_hidden_layers": 2, "sliding_window": 9}  # fmt: skip
    spec = spec_from_config({"model_type": "gemma3", "text_config": text, "vision_config": {}})
    assert (spec.vocab_size, spec.n_heads, spec.n_kv_heads) == (262_208, 8, 4)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "gpt2"}, "'gpt2'.*llama"),
        ({"hidden_act": "relu"}, "'relu'.*silu"),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, "'dynamic'.*yarn"),
        ({"rope_scaling": {"rope_type": "linear"}}, "number 'factor'"),
        ({"partial_rotary_factor": 0.5}, "partial rotation"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantization_config"),
        ({"num_local_experts": 8}, "num_local_experts"),
        ({"model_type": "gemma3_text", "sliding_window": 9, "use_bidirectional_attention": True},
         "use_bidirectional_attention"),
        ({"model_type": "qwen3", "use_sliding_window": True, "layer_types": ["chunked"] * 4},
         "chunked"),
    ],
)  # fmt: skip
def test_what_cannot_be_honoured_is_refused_by_name(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelUnsupported, match=words):
        spec_from_config({**LLAMA, **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden_size": None}, "'hidden_size'"),
        ({"num_hidden_layers": 0}, "'num_hidden_layers'.*found 0"),
        ({"rms_norm_eps": "small"}, "'rms_norm_eps'.*'small'"),
        ({"model_type": "gemma3_text"}, "sliding_window"),
        ({"model_type": "smollm3", "no_rope_layers": [1]}, "no_rope_layers"),
    ],
)
def test_sizes_that_cannot_be_are_corruption(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelCorrupt, match=words):
        spec_from_config({**LLAMA, **changes})


def test_heads_that_do_not_divide_are_corruption(tmp_path: Path) -> None:
    weights = open_weights(saved(random_model("llama"), tmp_path))
    odd = Weights((), gguf={}, config={**weights.config, "num_key_value_heads": 3})
    with pytest.raises(ModelCorrupt, match="4 heads over 3"):
        read_spec(odd)


class Pretended(Weights):
    """Weights of stated names and shapes, for a reader that looks no further."""

    def __init__(
        self, shapes: dict[str, tuple[int, ...]], *, gguf: Any = None, config: Any = None
    ) -> None:
        spans: tuple[TensorSpan, ...] = ()
        super().__init__(spans, gguf=gguf or {}, config=config or {})
        self.shapes = shapes

    def names(self) -> tuple[str, ...]:
        return tuple(self.shapes)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.shapes[name]

    def dequantized(self, name: str) -> NDArray[np.float32]:
        return np.ones(self.shapes[name], np.float32)


def pretended(case: str, folder: Path) -> tuple[Pretended, ModelSpec]:
    weights = open_weights(saved(random_model(case), folder))
    shapes = {name: weights.shape(name) for name in weights.names()}
    same = Pretended(shapes, config=weights.config)
    return same, read_spec(same)[0]


def test_every_tensor_has_a_place_and_every_place_a_tensor(tmp_path: Path) -> None:
    weights, spec = pretended("llama", tmp_path)
    assert not spec.tied
    weights.shapes["model.layers.0.self_attn.rotary_emb.inv_freq"] = (8,)
    read_spec(weights)
    weights.shapes["model.layers.0.mlp.experts.0.up_proj.weight"] = (96, 64)
    with pytest.raises(ModelUnsupported, match=r"no place.*experts"):
        read_spec(weights)
    del weights.shapes["model.layers.0.mlp.experts.0.up_proj.weight"]
    weights.shapes["model.norm.weight"] = (63,)
    with pytest.raises(ModelCorrupt, match=r"model\.norm.*\(63,\).*\(64,\)"):
        read_spec(weights)
    del weights.shapes["model.norm.weight"]
    with pytest.raises(ModelCorrupt, match=r"model\.norm\.weight.*missing"):
        read_spec(weights)


@pytest.mark.parametrize("prefix", ["model.language_model.", "language_model.model."])
def test_text_tensors_are_found_beside_vision_tensors(prefix: str, tmp_path: Path) -> None:
    weights, _ = pretended("gemma3", tmp_path)
    renamed = {prefix + n.removeprefix("model."): s for n, s in weights.shapes.items()}
    renamed["vision_tower.patch.weight"] = (3, 3)
    spec, names = read_spec(Pretended(renamed, config=weights.config))
    assert spec.layers[0].window == WINDOW
    assert names.prefix == prefix


GGUF: dict[str, Any] = {
    "general.architecture": "llama", "llama.block_count": 4, "llama.context_length": 64,
    "llama.embedding_length": 64, "llama.feed_forward_length": 96,
    "llama.attention.head_count": 4, "llama.attention.layer_norm_rms_epsilon": 1e-5,
}  # fmt: skip


def of_gguf(**changes: Any) -> ModelSpec:
    fields = {**GGUF, **{key.replace("__", "."): value for key, value in changes.items()}}
    arch = fields["general.architecture"]
    fields = {key.replace("llama.", f"{arch}."): value for key, value in fields.items()}
    return spec_from_gguf(Pretended({"token_embd.weight": (96, 64)}, gguf=fields))


def test_gguf_fields_say_the_same_as_a_config(tmp_path: Path) -> None:
    for case in ("llama", "llama yarn", "qwen2", "qwen3", "smollm3"):
        model = random_model(case)
        from_gguf = read_spec(open_weights(written(model, tmp_path / f"{case}.gguf")))[0]
        from_json = spec_from_config(model.config.to_dict())
        assert from_gguf.layers == from_json.layers
        assert (from_gguf.tied, from_gguf.qk_norm) == (from_json.tied, from_json.qk_norm)


def test_gguf_gemmas_scale_scores_by_their_size() -> None:
    def scale(n_layers: int) -> float:
        gemma = of_gguf(
            general__architecture="gemma3",
            llama__block_count=n_layers,
            llama__attention__sliding_window=8,
            llama__attention__key_length=32,
            llama__attention__value_length=32,
        )
        assert [layer.window for layer in gemma.layers[:7]] == [8] * 5 + [None, 8]
        return gemma.attention_scale

    assert scale(26) == 32**-0.5
    assert scale(62) == (64 / 4) ** -0.5


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"general__architecture": "mamba"}, "'mamba'.*llama"),
        ({"llama__expert_count": 8}, "experts"),
        ({"llama__attention__value_length": 8}, "different sizes"),
        ({"llama__rope__dimension_count": 8}, "partial rotation"),
        ({"llama__attention__sliding_window": 8}, "which layers slide"),
        ({"llama__rope__scaling__type": "longrope"}, "'longrope'"),
    ],
)
def test_gguf_fields_that_cannot_be_honoured_are_refused(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ModelUnsupported, match=words):
        of_gguf(**changes)


def test_gguf_fields_that_cannot_be_are_corruption() -> None:
    with pytest.raises(ModelCorrupt, match=r"llama\.block_count.*found \[1, 2\]"):
        of_gguf(llama__block_count=[1, 2])


def test_linear_scaling_divides_positions() -> None:
    plain = make_rope({"rope_theta": 100.0}, head_dim=8, context_tokens=64)
    params = {"rope_theta": 100.0, "rope_type": "linear", "factor": 4.0}
    slow = make_rope(params, head_dim=8, context_tokens=64)
    assert torch.equal(torch.tensor(slow.inv_freq) * 4, torch.tensor(plain.inv_freq))
