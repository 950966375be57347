"""The value that passes between finding a model and reading it."""

from dataclasses import dataclass
from pathlib import Path

from outpace.models.formats.check import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """The files of one model on this disk; all of them lie in `root`.

    `weights` is one GGUF file, or one or more safetensors shards with `index` as their index file.
    `config` is config.json; a GGUF file needs none. `tokenizer` lists what tokenizer files there
    are.
    """

    kind: Kind
    name: str
    root: Path
    weights: tuple[Path, ...]
    index: Path | None = None
    config: Path | None = None
    tokenizer: tuple[Path, ...] = ()
