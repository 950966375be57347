"""One way to read weights, whichever of the two formats holds them.

Bytes are memory-mapped and handed out without a copy; nothing here knows a model architecture, and
nothing here imports torch.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from outpace.errors import ConfigError, ModelNotFound, ModelUnsupported
from outpace.models.files import ModelFiles
from outpace.models.formats.check import TensorSpan
from outpace.models.formats.gguf_header import GgufValue, read_gguf
from outpace.models.formats.safetensors_header import read_json_object, read_shards

Bytes = npt.NDArray[np.uint8]
_PLAIN: Final = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}


class Weights:
    """The tensors of one model. Names are the file's own; shapes are row-major, outermost first."""

    def __init__(
        self,
        spans: tuple[TensorSpan, ...],
        *,
        gguf: Mapping[str, GgufValue],
        config: Mapping[str, object],
    ) -> None:
        self._spans = {span.name: span for span in spans}
        self._maps: dict[Path, Bytes] = {}
        self.gguf = gguf
        """GGUF fields as plain Python values; empty for safetensors."""
        self.config = config
        """config.json as parsed; empty where there is none."""

    def names(self) -> tuple[str, ...]:
        """Every tensor name, in file order."""
        return tuple(self._spans)

    def shape(self, name: str) -> tuple[int, ...]:
        """Logical shape (values, not bytes). Raises ConfigError for an unknown name."""
        return self._span(name).shape

    def dtype(self, name: str) -> str:
        """Storage type by its format's name: F32, BF16, F16, Q4_1, Q8_0, Q6_K, ..."""
        return self._span(name).dtype

    def raw(self, name: str) -> Bytes:
        """The stored bytes, uint8 of shape (*shape[:-1], bytes per row), memory-mapped, no copy.

        The mapping is copy-on-write: writing to the array never reaches the file. For unquantized
        tensors `.view(dtype)` gives back the logical shape.
        """
        span = self._span(name)
        if span.path not in self._maps:
            mapped = np.memmap(span.path, dtype=np.uint8, mode="c")
            self._maps[span.path] = mapped.view(np.ndarray)
        flat = self._maps[span.path][span.offset_bytes : span.offset_bytes + span.n_bytes]
        rows = span.shape[:-1]
        n_rows = int(np.prod(rows, dtype=np.int64))
        return flat.reshape(*rows, span.n_bytes // n_rows if n_rows else 0)

    def dequantized(self, name: str) -> npt.NDArray[np.float32]:
        """The values as float32 in the logical shape: a fresh array, 4 bytes per value.

        Raises ModelUnsupported for storage with no meaning of its own (integers, bare float8).
        """
        span, stored = self._span(name), self.raw(name)
        if span.dtype in _PLAIN:
            values = stored.view(_PLAIN[span.dtype])
            return np.array(values, dtype=np.float32, order="C").reshape(span.shape)
        if span.dtype == "BF16":
            wide = stored.view("<u2").astype(np.uint32) << 16
            return wide.view(np.float32).reshape(span.shape)
        if self.gguf:
            return self._from_blocks(span, stored)
        raise self._no_values(span)

    def _from_blocks(self, span: TensorSpan, stored: Bytes) -> npt.NDArray[np.float32]:
        from gguf import GGMLQuantizationType, quants

        try:
            values = quants.dequantize(stored, GGMLQuantizationType[span.dtype])
        except NotImplementedError:
            raise self._no_values(span) from None
        return np.asarray(values, dtype=np.float32).reshape(span.shape)

    @staticmethod
    def _no_values(span: TensorSpan) -> ModelUnsupported:
        return ModelUnsupported(
            f"tensor {span.name!r} of {span.path} is stored as {span.dtype}, which outpace "
            f"cannot turn into float values; F32, F16, BF16 and the GGUF block formats are allowed"
        )

    def _span(self, name: str) -> TensorSpan:
        try:
            return self._spans[name]
        except KeyError:
            raise ConfigError(
                f"these weights have no tensor {name!r}; they have {len(self._spans)}, "
                f"the first is {next(iter(self._spans), None)!r}"
            ) from None


def open_weights(files: ModelFiles) -> Weights:
    """Check every header of a resolved model and map its weights.

    Raises ModelCorrupt, ModelUnsupported or UnsafeFile before a single tensor is read.
    """
    try:
        config = read_json_object(files.config) if files.config is not None else {}
        if files.kind == "gguf":
            header = read_gguf(files.weights[0])
            return Weights(header.tensors, gguf=header.metadata, config=config)
        return Weights(read_shards(files.weights, files.index), gguf={}, config=config)
    except OSError as error:
        raise ModelNotFound(
            f"the files of {files.name} in {files.root} cannot be read "
            f"({error.strerror or error}); check that they exist and that you may read them"
        ) from error
