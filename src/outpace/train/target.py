"""What training needs to know of a target beside its passes: sizes, output matrix, embedding."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from outpace.errors import CapabilityError
from outpace.models.files import ModelFiles
from outpace.models.lineage import target_digest
from outpace.models.weights import open_weights
from outpace.runtimes.native.spec.names import Role
from outpace.runtimes.native.spec.read import read_spec


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetWeights:
    """The ends of a target: what turns tokens into streams and streams into logits.

    embed_VH: the embedding. head_VH: the output matrix with the last norm's gain multiplied in,
    so that logits are head_VH times the stream over its root mean square. digest: of the weights.
    """

    name: str
    digest: str
    n_layers: int
    embed_VH: Tensor
    head_VH: Tensor

    @property
    def hidden(self) -> int:
        """Width of the streams."""
        return int(self.embed_VH.shape[1])

    @property
    def vocab(self) -> int:
        """Tokens."""
        return int(self.embed_VH.shape[0])

    @property
    def taps(self) -> tuple[int, ...]:
        """Layers read by default: a low, a middle, a high one, and what leaves the last."""
        n = self.n_layers
        return tuple(sorted({max(1, round(n * share)) for share in (0.27, 0.53, 0.8)} | {n}))


def read_target(files: ModelFiles, cache_dir: Path) -> TargetWeights:
    """Read the ends of a target's weights.

    Raises:
        CapabilityError: its logits are more than a product of norm and matrix.
    """
    weights = open_weights(files)
    spec, names = read_spec(weights)
    if spec.logit_softcap:
        raise CapabilityError(
            f"{files.name} caps its logits; a head's loss cannot rebuild its law from hidden "
            "states, so `outpace train` does not take it"
        )

    def values(part: str) -> Tensor:
        return torch.from_numpy(
            np.array(weights.dequantized(names.find(Role(part=part, layer=None))), np.float32)
        )

    embed_VH = values("embed")
    head_VH = embed_VH if spec.tied else values("head")
    gain_H = values("final_norm") + spec.norm_offset
    return TargetWeights(
        name=files.name,
        digest=target_digest(files, cache_dir=cache_dir),
        n_layers=spec.n_layers,
        embed_VH=embed_VH,
        head_VH=head_VH * gain_H,
    )
