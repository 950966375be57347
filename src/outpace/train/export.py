"""Phase 5, export: the head rounded to blocks, its config, and a card that says how it was made."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from outpace.drafters.head.files import HeadConfig, write_head
from outpace.train.learn.network import HeadNetwork

# GGUF's types: 8 bits are within noise of the trained weights, and small enough.
BLOCKS = "Q8_0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What the card says. name, digest: of the target. facts: how the head was made."""

    name: str
    digest: str
    facts: Mapping[str, Any]


def export(
    folder: Path, network: HeadNetwork, ids_D: Tensor, sharpness: float, origin: Provenance
) -> int:
    """Write the head; returns the bytes of its weights."""
    values = {
        name: network.weight(name).detach().float().numpy() for name in network.shape.matrices
    }
    config = HeadConfig(
        target=origin.name,
        digest=origin.digest,
        shape=network.shape,
        greedy_sharpness=sharpness,
        blocks=dict.fromkeys(values, BLOCKS),
        training=origin.facts,
    )
    ids = ids_D.numpy().astype(np.int32)
    return write_head(folder, config, values, ids, card(config, origin))


def card(config: HeadConfig, origin: Provenance) -> str:
    """Markdown for people."""
    shape = config.shape
    facts = "\n".join(f"| {name} | {value} |" for name, value in origin.facts.items())
    return f"""# A drafting head for {origin.name}

Guesses the next tokens of {origin.name} (weights {origin.digest}) from its hidden states after
layers {", ".join(map(str, shape.taps))}: {shape.n_parameters / 1e6:.1f} M parameters in blocks of 8
bits, {shape.draft} of the target's {shape.vocab} tokens can be guessed. It changes how fast
the target's text comes, never what it says; another target is refused.

Use: `outpace generate --drafter head:FOLDER PROMPT`. Licence: its target's, whose text it learned
from.

Data: text that the target wrote itself, prompts included, from its own chat template. No other
text, and no evaluation prompt (checked by hash).

| made by `outpace train` | |
|---|---|
{facts}
"""
