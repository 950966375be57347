"""Open a model's files with transformers: safetensors or GGUF, never code, never a pickle."""

import hashlib
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from outpace.errors import ConfigError, ModelCorrupt, ModelUnsupported
from outpace.models.files import ModelFiles
from outpace.models.lineage import target_digest
from outpace.models.weights import Weights, open_weights
from outpace.runtimes.memory import free_memory_bytes, require_memory
from outpace.runtimes.transformers_config import read_layout

if TYPE_CHECKING:
    from outpace.runtimes.transformers import TransformersRuntime

DTYPES: Final = {
    "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16,
}  # fmt: skip
_ROOM: Final = 1.1  # beside the weights: buffers, the largest tensor twice while it is converted
_SAMPLE: Final = 64  # values per tensor that go into the digest of a model in memory


def open_runtime(
    files: ModelFiles,
    *,
    dtype: str = "auto",
    device: str = "cpu",
    eos_ids: frozenset[int] = frozenset(),
    cache_bytes: int | None = None,
    cache_dir: Path | None = None,
    free_bytes: int | None = None,
) -> "TransformersRuntime":
    """Load a model and prove that its cache can forget.

    dtype: "auto" = bfloat16 where the CPU multiplies it natively or the checkpoint is stored so,
    else float32. eos_ids: more ids that end a text. cache_bytes: most memory for keys and values.
    cache_dir: where digests of files are remembered. free_bytes: memory that may be taken;
    None = ask the system (for devices other than the CPU, the device itself refuses).

    Raises:
        ModelUnsupported: an unknown architecture, one that needs its own code, or a layer that
            cannot forget.
        ModelCorrupt, UnsafeFile: headers that do not hold, pickles.
        MemoryShort: the weights would not fit; nothing was read.
        ConfigError: an unknown dtype or device.
    """
    from outpace.runtimes.transformers import TransformersRuntime

    weights = open_weights(files)
    with quiet(), understood(files):
        config = _config(files, weights)
    read_layout(config)
    chosen = choose_dtype(dtype, config, device)
    n_values = sum(_count(weights.shape(name)) for name in weights.names())
    if device == "cpu":
        free = free_memory_bytes() if free_bytes is None else free_bytes
        needed = int(n_values * chosen.itemsize * _ROOM)
        require_memory(needed, what=f"{files.name} in {chosen}", free_bytes=free)
    with quiet(), understood(files):
        model = _model(files, weights, config, chosen)
    model.eval()
    try:
        model.to(device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"device {device!r} does not take {files.name}: {error}") from error
    name = str(chosen).removeprefix("torch.")
    digest = f"{target_digest(files, cache_dir=cache_dir)}-{name}"
    return TransformersRuntime(model, digest=digest, eos_ids=eos_ids, cache_bytes=cache_bytes)


def choose_dtype(name: str, config: Any, device: str = "cpu") -> torch.dtype:
    """The dtype of parameters; see `open_runtime`. Raises ConfigError for an unknown name."""
    if name in DTYPES:
        return DTYPES[name]
    if name != "auto":
        raise ConfigError(f"dtype {name!r}; allowed: auto, {', '.join(DTYPES)}")
    stored = getattr(config, "dtype", None) or getattr(config, "torch_dtype", None)
    native = device != "cpu" or cpu_multiplies_bfloat16()
    return torch.bfloat16 if native or str(stored).endswith("bfloat16") else torch.float32


def cpu_multiplies_bfloat16() -> bool:
    """Whether this CPU has bfloat16 products (AVX512-BF16 or AMX), by torch's own word."""
    checks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(bool(getattr(torch.cpu, name, bool)()) for name in checks)


def digest_in_memory(model: Any) -> str:
    """Identity of a model without files: names, shapes, dtypes and a sample of every tensor."""
    found = hashlib.sha256(type(model).__name__.encode())
    for name, tensor in model.state_dict().items():
        flat = tensor.detach().reshape(-1)
        at = torch.linspace(0, max(len(flat) - 1, 0), min(_SAMPLE, len(flat))).long()
        values = flat[at.to(flat.device)].to("cpu", torch.float64).numpy().tobytes()
        found.update(f"\0{name}\0{tuple(tensor.shape)}\0{tensor.dtype}\0".encode() + values)
    found.update(str(model.config.to_dict()).encode())
    return f"memory-{found.hexdigest()[:16]}"


def _config(files: ModelFiles, weights: Weights) -> Any:
    from transformers import AutoConfig

    if files.kind == "gguf":
        from outpace.runtimes.transformers_gguf import read_config

        return read_config(weights)
    return AutoConfig.from_pretrained(
        str(files.root), trust_remote_code=False, local_files_only=True
    )


def _model(files: ModelFiles, weights: Weights, config: Any, dtype: torch.dtype) -> Any:
    from transformers import AutoModelForCausalLM

    if files.kind == "gguf":
        from outpace.runtimes.transformers_gguf import read_model

        model, lost = read_model(weights, config, dtype)
    else:
        model, report = AutoModelForCausalLM.from_pretrained(
            str(files.root), config=config, dtype=dtype, use_safetensors=True,
            trust_remote_code=False, local_files_only=True, output_loading_info=True,
        )  # fmt: skip
        lost = sorted(report.get("missing_keys", ()))
    if lost:  # transformers fills what it does not find with random numbers
        raise ModelCorrupt(
            f"{files.name} lacks {len(lost)} tensors its configuration asks for "
            f"({', '.join(lost[:3])}{', ...' if len(lost) > 3 else ''}); download it again, or "
            f"fix its config.json"
        )
    return model


@contextmanager
def understood(files: ModelFiles) -> Iterator[None]:
    """Name, in outpace's words, what transformers could not read."""
    try:
        yield
    except (ValueError, KeyError, AttributeError, NotImplementedError, ImportError) as error:
        hint = "models outpace runs need no code of their own (trust_remote_code is never used)"
        raise ModelUnsupported(
            f"transformers does not run {files.name}: {str(error)[:300]}; {hint}"
        ) from error
    except (OSError, RuntimeError, json.JSONDecodeError) as error:
        raise ModelCorrupt(f"{files.name} could not be read: {str(error)[:300]}") from error


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars and no advice of transformers on stderr while a model loads."""
    from transformers.utils import logging as theirs

    level, bars = theirs.get_verbosity(), theirs.is_progress_bar_enabled()
    theirs.set_verbosity(logging.ERROR)
    theirs.disable_progress_bar()
    try:
        yield
    finally:
        theirs.set_verbosity(level)
        if bars:
            theirs.enable_progress_bar()


def _count(shape: tuple[int, ...]) -> int:
    n = 1
    for size in shape:
        n *= size
    return n
