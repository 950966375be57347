"""Phase 3, training: batches, steps, checkpoints; the same for the same seed, killed or not.

Which answers a step reads and how large it is are functions of the seed and the step's number;
everything else is in the checkpoint.
"""

import math
import time
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from outpace.errors import ConfigError
from outpace.train.features import Answer
from outpace.train.learn.data import Batch, Target, collate, order
from outpace.train.learn.network import HeadNetwork
from outpace.train.learn.objective import Mixture, divergence


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How to train.

    steps: batches in all. per_batch: answers in each. depths: weight of the 1st, 2nd, .. guess.
    thin: of the guesses after the first, one root in so many is followed. kl_share: part of the
    run that learns by KL alone. warm_steps: of rising rates. clip: largest gradient norm.
    """

    steps: int
    seed: int = 0
    per_batch: int = 16
    depths: tuple[float, ...] = (1.0, 0.8, 0.65, 0.5)
    thin: int = 4
    muon: float = 8e-3
    adam: float = 1e-3
    kl_steps: int = 120
    warm_steps: int = 25
    decay: float = 0.3
    clip: float = 1.0
    save_every_s: float = 60.0

    def rate(self, step: int) -> float:
        """Of the full learning rates: a short rise, a long level, a fall (WSD, 2404.06395)."""
        rise = min(1.0, (step + 1) / self.warm_steps)
        fall = (self.steps - step) / max(self.decay * self.steps, 1)
        return max(min(rise, fall), 1e-3)

    def mixture(self, step: int) -> Mixture:
        """Of the two divergences."""
        return Mixture(kl=1.0, tv=0.0) if step < self.kl_steps else Mixture(kl=0.3, tv=1.0)

    def goes_on(self, other: Mapping[str, Any], step: int) -> dict[str, Any]:
        """What another run's recipe has different that mattered up to `step`; empty = nothing."""
        mine = asdict(self)
        free = {"save_every_s"}
        if step <= (1 - self.decay) * min(self.steps, int(other["steps"])):
            free.add("steps")
        return {k: v for k, v in other.items() if k not in free and mine.get(k) != v}


@dataclass(frozen=True, slots=True)
class Progress:
    """Where training stands. loss: of the last batch. seconds: since this process began."""

    step: int
    steps: int
    loss: float
    seconds: float


class Trainer:
    """A head in training."""

    def __init__(self, network: HeadNetwork, target: Target, recipe: Recipe) -> None:
        self.network, self.recipe, self.step = network, recipe, 0
        self._target = target
        tables = [network.weight("embed"), network.weight("out")]
        inner = [p for p in network.parameters() if all(p is not t for t in tables)]
        self._optimizers = (
            torch.optim.Muon(
                inner, lr=recipe.muon, weight_decay=0.0, momentum=0.95, adjust_lr_fn="original"
            ),
            torch.optim.Adam(tables, lr=recipe.adam, betas=(0.9, 0.95)),
        )

    def run(self, answers: Seq[Answer], checkpoint: Path, tell: Callable[[Progress], bool]) -> bool:
        """Train to the end; False when `tell` stopped it. A checkpoint is written either way."""
        began = saved = time.monotonic()
        going = True
        while going and self.step < self.recipe.steps:
            loss = self.learn(answers)
            now = time.monotonic()
            going = tell(Progress(self.step, self.recipe.steps, loss, now - began))
            if now - saved > self.recipe.save_every_s:
                self.save(checkpoint)
                saved = now
        self.save(checkpoint)
        return going

    def learn(self, answers: Seq[Answer]) -> float:
        """One step; returns its loss."""
        recipe = self.recipe
        picked = order(recipe.seed, len(answers), recipe.per_batch, self.step)
        batch = collate([answers[i] for i in picked], len(self.network.shape.taps), self._target)
        loss = self._loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), recipe.clip)
        for optimizer, full in zip(self._optimizers, (recipe.muon, recipe.adam), strict=True):
            for group in optimizer.param_groups:
                group["lr"] = full * recipe.rate(self.step)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.step += 1
        found = float(loss.detach())
        if math.isnan(found):
            raise ConfigError(
                f"the loss of step {self.step} is not a number; remove the checkpoint and the "
                "features, and train on the torch backend or report it"
            )
        return found

    def _loss(self, batch: Batch) -> Tensor:
        recipe, network = self.recipe, self.network
        mix = recipe.mixture(self.step)
        at_N = batch.roots(1)
        state_NH = network.root(batch.taps_RTH[at_N], batch.tokens_R[at_N])
        loss = torch.zeros(())
        total = sum(recipe.depths)
        for depth, weight in enumerate(recipe.depths, 1):
            if depth > 1:
                left_N = batch.left_R[at_N] >= depth
                if depth == 2:  # deeper guesses cost as much and teach the same step
                    left_N &= at_N % recipe.thin == self.step % recipe.thin
                state_NH, at_N = state_NH[left_N], at_N[left_N]
                if not len(at_N):
                    break
                state_NH = network.step(state_NH, batch.tokens_R[at_N + depth - 1])
            weight_N = torch.full((len(at_N),), weight / total / len(at_N))
            p_ND = batch.p_RD[at_N + depth]
            loss = loss + divergence(network.logits(state_NH), p_ND, weight_N, mix)
        return loss

    def save(self, path: Path) -> None:
        """Write a checkpoint, whole or not at all."""
        document = {
            "recipe": asdict(self.recipe),
            "step": self.step,
            "network": self.network.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self._optimizers],
        }
        part = path.with_suffix(".part")
        torch.save(document, part)
        part.replace(path)

    def load(self, path: Path) -> None:
        """Go on from a checkpoint.

        Raises:
            ConfigError: it was made with another recipe.
        """
        document = torch.load(path, weights_only=True)
        other = self.recipe.goes_on(document["recipe"], int(document["step"]))
        if other:
            raise ConfigError(
                f"the checkpoint {path} was made with {other}; go on with the same options, or "
                "remove it to begin anew"
            )
        self.network.load_state_dict(document["network"])
        for optimizer, state in zip(self._optimizers, document["optimizers"], strict=True):
            optimizer.load_state_dict(state)
        self.step = int(document["step"])
