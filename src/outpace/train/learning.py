"""Phases 3 to 5 of a run: training, evaluation and export, from features on disk."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from outpace.drafters.head.files import HeadShape
from outpace.train.corpus.documents import Corpus
from outpace.train.export import Provenance, export
from outpace.train.features import Answer
from outpace.train.learn.data import Target, divide, draft_vocabulary
from outpace.train.learn.judge import HeldOut, greedy_sharpness, held_out
from outpace.train.learn.loop import Progress, Recipe, Trainer
from outpace.train.learn.network import HeadNetwork
from outpace.train.plan import ARCHS, Report, Tell, TrainPlan, Workplace
from outpace.train.target import TargetWeights

# A budget of minutes is divided by the time of so many steps, which are thrown away.
_PROBE_STEPS = 6
# Answers judged while training.
_JUDGED = 60


@dataclass(slots=True, kw_only=True)
class Learning:
    """Trains a head on a corpus's features.

    left_s: seconds that a budget leaves for training, None without one. clock: seconds.
    """

    place: Workplace
    plan: TrainPlan
    weights: TargetWeights
    corpus: Corpus
    answers: list[Answer]
    tell: Tell
    clock: Callable[[], float]
    left_s: Callable[[], float] | None = None
    ids_D: torch.Tensor = field(init=False)
    target: Target = field(init=False)

    def __post_init__(self) -> None:
        vocab, size = self.weights.vocab, ARCHS[self.plan.arch].draft
        learn, _ = divide(self.answers)
        self.ids_D = draft_vocabulary(learn, vocab, min(size, vocab))
        self.target = Target(head_DH=self.weights.head_VH[self.ids_D])

    def run(self, out: Path) -> dict[str, Any]:
        """Train, judge, export; returns the evaluation."""
        learn, _ = divide(self.answers)
        network = self._network()
        steps = self.plan.steps or int(self.place.noted().get("steps", 0))
        steps = steps or self._steps(network, learn)
        recipe = Recipe(steps=steps, seed=self.plan.seed, per_batch=self.plan.per_batch)
        trainer = Trainer(network, self.target, recipe)
        checkpoint = self.place.folder / "checkpoint.pt"
        if checkpoint.exists():
            trainer.load(checkpoint)
        greedy, judged, began = self._greedy(), "", self.clock()

        def tell(at: Progress) -> bool:
            nonlocal judged
            if at.step % max(at.steps // 20, 1) == 0:
                found = held_out(network, self.target, self.ids_D, greedy[:_JUDGED])
                judged = f", held out {found.right[0]:.3f}, {found.tokens_per_pass:.2f} a pass"
            words = f"step {at.step}/{at.steps}, loss {at.loss:.3f}{judged}"
            self.tell(Report(phase="training", share=at.step / at.steps, words=words))
            return True

        trainer.run(learn, checkpoint, tell)
        self.place.spent("training", self.clock() - began)
        return self._finish(trainer, greedy, out)

    def _network(self) -> HeadNetwork:
        arch, weights = ARCHS[self.plan.arch], self.weights
        shape = HeadShape(
            hidden=weights.hidden,
            taps=weights.taps,
            embed=arch.embed,
            inner=arch.inner,
            root_inner=arch.root_inner,
            vocab=weights.vocab,
            draft=len(self.ids_D),
        )
        torch.manual_seed(self.plan.seed)
        network = HeadNetwork(shape, torch.Generator().manual_seed(self.plan.seed))
        network.start_from(weights.embed_VH, self.target.head_DH)
        return network

    def _steps(self, network: HeadNetwork, learn: list[Answer]) -> int:
        """How many; with a budget of minutes, by the time of a few that are thrown away."""
        steps = max(int(self.plan.epochs * len(learn) / self.plan.per_batch), 1)
        if self.left_s is not None:
            trial_of = HeadNetwork(network.shape, torch.Generator().manual_seed(0))
            recipe = Recipe(steps=steps, per_batch=self.plan.per_batch)
            trial = Trainer(trial_of, self.target, recipe)
            trial.learn(learn)
            began = self.clock()
            for _ in range(_PROBE_STEPS):
                trial.learn(learn)
            step_s = (self.clock() - began) / _PROBE_STEPS
            steps = max(min(steps, int(self.left_s() / step_s)), 1)
        self.place.note(steps=steps)
        return steps

    def _greedy(self) -> list[Answer]:
        """Held-out answers that were written at temperature 0; all where there are none."""
        _, held = divide(self.answers)
        _, documents = divide(list(self.corpus.documents[: len(self.answers)]))
        cold = [a for a, d in zip(held, documents, strict=True) if d.temperature == 0]
        return cold or held

    def _finish(self, trainer: Trainer, greedy: list[Answer], out: Path) -> dict[str, Any]:
        self.tell(Report(phase="evaluation", share=0.0, words="held-out answers"))
        network = trainer.network

        def judge(answers: list[Answer]) -> HeldOut:
            return held_out(network, self.target, self.ids_D, answers)

        found = judge(greedy)
        sharp = greedy_sharpness(network, self.target, self.ids_D, greedy)
        facts = self._facts(trainer, found)
        name, digest = self.weights.name, self.weights.digest
        n_bytes = export(
            out, network, self.ids_D, sharp, Provenance(name=name, digest=digest, facts=facts)
        )
        kinds = sorted({a.kind for a in greedy})
        self.tell(Report(phase="export", share=1.0, words=f"{n_bytes / 1e6:.1f} MB"))
        return {
            "right": found.right,
            "kept": found.kept,
            "positions": found.positions,
            "tokens_per_pass": found.tokens_per_pass,
            "by_kind": {
                kind: judge([a for a in greedy if a.kind == kind]).tokens_per_pass for kind in kinds
            },
            "greedy_sharpness": sharp,
            "bytes": n_bytes,
            "seconds": self.place.noted().get("seconds", {}),
        }

    def _facts(self, trainer: Trainer, found: HeldOut) -> dict[str, Any]:
        right = ", ".join(f"{share:.3f}" for share in found.right)
        times = self.place.noted().get("seconds", {})
        plan, n_tokens = self.plan, self.corpus.n_tokens
        return {
            "command": f"outpace train --target {self.weights.name} --out FOLDER --seed "
            f"{plan.seed} --tokens {n_tokens} --steps {trainer.step} --arch {plan.arch}"
            f"{' --prompts FILE' if plan.prompts else ''}",
            "corpus": f"{len(self.corpus.documents)} documents, {n_tokens} tokens",
            "steps": f"{trainer.step}, of {trainer.recipe.per_batch} answers each",
            "prompts excluded by hash": len(plan.excluded),
            "held-out greedy answers: likeliest guess right, by position": right,
            "the same, tokens per pass of a chain": f"{found.tokens_per_pass:.2f}",
            "seconds": ", ".join(f"{name} {s:.0f}" for name, s in times.items()),
        }
