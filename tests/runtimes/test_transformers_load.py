"""What a transformers model must be to be loaded, and how each refusal names its reason."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from outpace.errors import ConfigError, MemoryShort, ModelCorrupt, ModelUnsupported, UnsafeFile
from outpace.models.resolve import resolve
from outpace.runtimes.transformers import TransformersRuntime
from outpace.runtimes.transformers_load import choose_dtype, open_runtime
from runtimes import tiny
from runtimes.test_transformers import TOLERANCE, fresh, step

REFUSED = {
    "MambaConfig": ({"hidden_size": 16, "num_hidden_layers": 2}, "layer 0 .*linear_attention"),
    "Mamba2Config": ({"num_hidden_layers": 2}, "layer 0 .*linear_attention"),
    "FalconH1Config": ({"num_hidden_layers": 2}, "layer 0 .*hybrid"),
    "JambaConfig": ({"num_hidden_layers": 8}, "layer 0 .*linear_attention"),
    "Qwen3NextConfig": ({"num_hidden_layers": 4}, "layer 0 .*linear_attention"),
    "RecurrentGemmaConfig": ({"num_hidden_layers": 3}, "layer 0 .*linear_attention"),
    "Llama4TextConfig": ({"num_hidden_layers": 4}, "layer 0 .*chunked_attention"),
    "Gemma3nTextConfig": ({}, "layer 20 .*reuse"),
    "T5Config": ({}, "encoder-decoder"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_models_that_cannot_forget_are_refused_by_kind_and_index(name: str) -> None:
    import transformers

    from outpace.runtimes.transformers_config import read_layout

    settings, words = REFUSED[name]
    with pytest.raises(ModelUnsupported, match=words):
        read_layout(getattr(transformers, name)(**settings))


def test_a_recurrent_model_its_configuration_does_not_name_is_caught_by_the_proof() -> None:
    """RWKV calls its layers attention; only a pass shows that they are a running state."""
    import transformers

    settings = transformers.RwkvConfig(
        vocab_size=tiny.VOCAB, hidden_size=16, num_hidden_layers=2, attention_hidden_size=16
    )
    with pytest.raises(ModelUnsupported, match=r"no key/value cache|keys and values per token"):
        TransformersRuntime.wrap(tiny.build(settings))


def test_a_state_beside_the_cache_is_caught_by_the_proof() -> None:
    model = tiny.build(tiny.config("llama"))
    seen: list[Tensor] = []

    def smuggle(_: Any, inputs: tuple[Tensor], output: Tensor) -> Tensor:
        seen.append(output.mean(1, keepdim=True))
        return output + 0.5 * sum(seen)

    model.model.embed_tokens.register_forward_hook(smuggle)
    with pytest.raises(ModelUnsupported, match="remembers guesses"):
        TransformersRuntime.wrap(model)


def saved(root: Path, name: str = "llama", **changes: object) -> Path:
    settings = tiny.config(name, **changes)
    model = tiny.build(settings)
    model.save_pretrained(root)
    return root


def test_a_folder_is_loaded_and_says_the_same_as_the_object(tmp_path: Path) -> None:
    runtime = open_runtime(resolve(str(saved(tmp_path))), dtype="float32", eos_ids=frozenset({7}))
    assert runtime.traits.eos_ids == {1, 7}
    assert runtime.traits.digest.endswith("-float32")
    runtime.open(0, [1])
    model = tiny.build(tiny.config("llama"))
    logits = step(runtime, 0, [5, 6], [-1, 0])[1]
    assert float((logits - fresh(model, [5, 6])).abs().max()) < TOLERANCE


def test_memory_is_asked_for_before_anything_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(MemoryShort, match="1000 are free") as caught:
        open_runtime(resolve(str(saved(tmp_path))), dtype="float32", free_bytes=1000)
    n_values = sum(t.numel() for t in tiny.build(tiny.config("llama")).parameters())
    assert caught.value.needed_bytes == int(4 * n_values * 1.1)


def test_a_pickle_folder_is_refused(tmp_path: Path) -> None:
    saved(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x02}q\x00.")
    with pytest.raises(UnsafeFile, match="pickle"):
        open_runtime(resolve(str(tmp_path)))


def test_missing_tensors_are_not_filled_with_noise(tmp_path: Path) -> None:
    saved(tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text("utf-8"))
    settings["num_hidden_layers"] = 5
    settings.pop("layer_types", None)
    (tmp_path / "config.json").write_text(json.dumps(settings), "utf-8")
    with pytest.raises(ModelCorrupt, match="lacks 9 tensors"):
        open_runtime(resolve(str(tmp_path)), dtype="float32")


def test_a_model_with_its_own_code_is_refused(tmp_path: Path) -> None:
    saved(tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text("utf-8"))
    own_code = {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}
    settings |= {"model_type": "mine", "auto_map": own_code}
    (tmp_path / "config.json").write_text(json.dumps(settings), "utf-8")
    (tmp_path / "evil.py").write_text("raise SystemExit('code ran')", "utf-8")
    with pytest.raises(ModelUnsupported, match="trust_remote_code is never used"):
        open_runtime(resolve(str(tmp_path)))


def test_dtypes_are_chosen_by_name() -> None:
    assert choose_dtype("float32", object()) == torch.float32
    assert choose_dtype("auto", type("C", (), {"dtype": "bfloat16"})()) == torch.bfloat16
    with pytest.raises(ConfigError, match="allowed: auto, float32"):
        choose_dtype("int3", object())


def test_the_digest_of_a_model_in_memory_follows_its_weights() -> None:
    one = TransformersRuntime.wrap(tiny.build(tiny.config("llama"))).traits.digest
    same = TransformersRuntime.wrap(tiny.build(tiny.config("llama"))).traits.digest
    other = TransformersRuntime.wrap(tiny.build(tiny.config("llama"), seed=4)).traits.digest
    assert one == same != other


def test_scalings_that_move_all_positions_cap_the_context() -> None:
    from outpace.runtimes.transformers_config import context_tokens

    def section(**scaling: object) -> Any:
        return type("C", (), {"max_position_embeddings": 4096, "rope_parameters": scaling})()

    assert context_tokens(section(rope_type="default")) == 4096
    assert context_tokens(section(rope_type="llama3", original_max_position_embeddings=8)) == 4096
    scaled = section(rope_type="longrope", original_max_position_embeddings=512)
    assert context_tokens(scaled) == 512
    nested = section(full_attention={"rope_type": "dynamic",
                                     "original_max_position_embeddings": 256})  # fmt: skip
    assert context_tokens(nested) == 256
