"""A transformers model behind the five verbs says what a fresh prefill of the same text says."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from outpace.core.score import Rows
from outpace.errors import (
    CapacityError,
    ConfigError,
    ContractError,
    MemoryShort,
    ModelCorrupt,
    ModelUnsupported,
    UnsafeFile,
)
from outpace.models.resolve import resolve
from outpace.runtimes.transformers import TransformersRuntime, lowest_argmax
from outpace.runtimes.transformers_load import choose_dtype, open_runtime
from runtimes import tiny

TOLERANCE = 2e-4  # float32 through four layers of large random weights


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Matrices this small only lose by a second thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def fresh(model: Any, text: list[int]) -> Tensor:
    """Logits [V] after `text`, without any cache: the truth."""
    with torch.no_grad():
        logits: Tensor = model(input_ids=torch.tensor([text]), use_cache=False).logits[0, -1]
    return logits.float()


def step(runtime: TransformersRuntime, key: int, tokens: list[int], parents: list[int]) -> Tensor:
    """One pass over rows of one sequence; logits of all of them."""
    runtime.reserve(key, len(tokens))
    rows = Rows(key=key, tokens=tokens, parents=parents, asked=range(len(tokens)))
    logits = runtime.extend([rows])[0].logits_AV
    assert logits is not None
    assert logits.dtype == torch.float32
    return logits


def path_to(parents: list[int], row: int) -> list[int]:
    path = []
    while row != -1:
        path.append(row)
        row = parents[row]
    return path[::-1]


@pytest.mark.parametrize("name", tiny.NAMES)
def test_any_interleaving_equals_a_fresh_prefill(name: str) -> None:
    """Chunks, chains, trees and rollbacks at random, well past the sliding window."""
    model = tiny.model(name)
    runtime = TransformersRuntime.wrap(model)
    rng = random.Random(name)  # noqa: S311 (no secret)
    texts: dict[int, list[int]] = {}
    worst = 0.0
    for _ in range(40):
        key = rng.randrange(3)
        if key not in texts:
            assert runtime.open(key, [1, 2]) == 0
            texts[key] = []
        if len(texts[key]) > 60 or rng.random() < 0.06:
            runtime.close(key)
            del texts[key]
            continue
        n = rng.randint(1, 7)
        tokens = [rng.randrange(tiny.VOCAB) for _ in range(n)]
        tree = runtime.traits.trees and rng.random() < 0.6
        parents = [rng.randrange(-1, i) if tree else i - 1 for i in range(n)]
        logits = step(runtime, key, tokens, parents)
        for row in range(n):
            text = texts[key] + [tokens[i] for i in path_to(parents, row)]
            worst = max(worst, float((logits[row] - fresh(model, text)).abs().max()))
        path = path_to(parents, rng.randrange(-1, n))
        runtime.keep(key, path)
        texts[key] += [tokens[i] for i in path]
    for key in range(3):
        runtime.close(key)
    runtime.check_integrity()
    assert worst < TOLERANCE, f"{name}: {worst}"


@pytest.mark.parametrize(
    ("name", "trees"), [("llama", True), ("gemma3", True), ("mistral", True), ("falcon", False)]
)
def test_trees_are_claimed_only_where_proved(name: str, trees: bool) -> None:
    assert TransformersRuntime.wrap(tiny.model(name)).traits.trees == trees


@pytest.mark.parametrize("name", ["gemma3", "mistral"])
def test_a_rollback_across_the_window_loses_nothing(name: str) -> None:
    """Guesses push tokens out of the window; after they are rejected those must be back."""
    model = tiny.model(name)
    runtime = TransformersRuntime.wrap(model)
    text = [(5 * i) % tiny.VOCAB for i in range(2 * tiny.WINDOW)]
    runtime.open(0, text)
    step(runtime, 0, text, list(range(-1, len(text) - 1)))
    runtime.keep(0, range(len(text)))
    step(runtime, 0, [3] * tiny.WINDOW, list(range(-1, tiny.WINDOW - 1)))
    runtime.keep(0, ())
    logits = step(runtime, 0, [9], [-1])[0]
    assert float((logits - fresh(model, [*text, 9])).abs().max()) < TOLERANCE


def test_only_asked_rows_are_answered_and_best_is_their_argmax() -> None:
    runtime = TransformersRuntime.wrap(tiny.model("llama"))
    runtime.open(0, [4])
    runtime.reserve(0, 8)
    text = [4, 8, 15, 16]
    chain = range(-1, 3)
    scores = runtime.extend([Rows(key=0, tokens=text, parents=chain, asked=())])[0]
    assert (scores.logits_AV, scores.best_A) == (None, None)
    runtime.keep(0, ())
    runtime.reserve(0, 8)
    full = runtime.extend([Rows(key=0, tokens=text, parents=chain, asked=(3, 1))])[0].logits_AV
    assert full is not None
    runtime.keep(0, ())
    runtime.reserve(0, 8)
    rows = Rows(key=0, tokens=text, parents=chain, asked=(3, 1), logits=False)
    scores = runtime.extend([rows])[0]
    assert scores.logits_AV is None
    assert scores.best_A == full.argmax(-1).tolist()
    assert float((full[1] - fresh(tiny.model("llama"), text[:2])).abs().max()) < TOLERANCE
    full[0, 0] = 0.0  # an ordinary tensor: in-place changes are allowed


def test_the_lowest_id_wins_a_tie_and_nan_does_not_hide() -> None:
    nan = float("nan")
    logits = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [5.0, nan, 9.0]])
    assert lowest_argmax(logits) == [1, 0, 1]


def test_a_failed_pass_changes_nothing() -> None:
    model = tiny.build(tiny.config("llama"))
    runtime = TransformersRuntime.wrap(model)
    runtime.open(0, [1])
    step(runtime, 0, [5, 6, 7], [-1, 0, 1])
    runtime.keep(0, range(3))
    last = model.model.layers[2]
    handle = last.register_forward_hook(lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    runtime.reserve(0, 2)
    with pytest.raises(KeyboardInterrupt):
        runtime.extend([Rows(key=0, tokens=[8, 9], parents=[-1, 0], asked=[1])])
    handle.remove()
    logits = step(runtime, 0, [10], [-1])[0]
    assert float((logits - fresh(model, [5, 6, 7, 10])).abs().max()) < TOLERANCE


def test_a_byte_budget_is_kept_and_freed() -> None:
    probe = TransformersRuntime.wrap(tiny.model("llama"))
    per_token = 4 * 2 * 2 * 8 * 4  # layers, keys and values, heads, head size, float32
    runtime = TransformersRuntime.wrap(tiny.model("llama"), cache_bytes=2 * 256 * per_token)
    for key in (0, 1):
        runtime.open(key, [1])
        runtime.reserve(key, 50)
    runtime.open(2, [1])
    with pytest.raises(CapacityError, match=r"\d+ bytes of cache, \d+ are allowed"):
        runtime.reserve(2, 1)
    runtime.close(0)
    runtime.reserve(2, 1)
    probe.open(0, [1])
    probe.reserve(0, 10**9)  # no budget, no refusal


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"key": 9, "tokens": [1], "parents": [-1]}, "not open"),
        ({"key": 0, "tokens": [1] * 9, "parents": list(range(-1, 8))}, "9 rows, 8 were reserved"),
        ({"key": 0, "tokens": [], "parents": []}, "0 rows"),
        ({"key": 0, "tokens": [1, 2], "parents": [-1, 1]}, "parents"),
    ],
)
def test_broken_rows_are_a_contract_error(rows: dict[str, Any], words: str) -> None:
    runtime = TransformersRuntime.wrap(tiny.model("llama"))
    runtime.open(0, [1])
    runtime.reserve(0, 8)
    with pytest.raises(ContractError, match=words):
        runtime.extend([Rows(**rows, asked=())])


def test_rows_end_where_the_context_does() -> None:
    runtime = TransformersRuntime.wrap(tiny.model("llama"))
    n = runtime.traits.context_tokens
    assert n == tiny.SIZES["max_position_embeddings"]
    runtime.open(0, [3] * n)
    step(runtime, 0, [3] * n, list(range(-1, n - 1)))
    runtime.keep(0, range(n))
    with pytest.raises(ContractError, match="position 96; the context has 96"):
        step(runtime, 0, [3], [-1])
    with pytest.raises(ContractError, match="97 tokens"):
        runtime.open(1, [3] * (n + 1))


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
