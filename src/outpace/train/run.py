"""`outpace train`, phase after phase; each leaves files behind, and a later run goes on from them.

OUT/work/plan.json         options and what was decided on the way
OUT/work/documents.jsonl   corpus; manifest.json says what of it is used
OUT/work/features/         features
OUT/work/checkpoint.pt     training
OUT/evaluation.json, config.json, head.safetensors, README.md
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from outpace.api import Model
from outpace.errors import CapabilityError, ConfigError
from outpace.train.corpus.documents import Corpus, gather, read_documents
from outpace.train.corpus.prompts import shipped_seeds
from outpace.train.corpus.scribe import CorpusPlan, write_corpus
from outpace.train.features import Answer, Features
from outpace.train.learning import Learning
from outpace.train.plan import Report, Tell, TrainPlan, Workplace
from outpace.train.target import TargetWeights

# Bytes of a document on disk, by token.
_TOKEN_BYTES = 12
# Shares of --minutes: the corpus may take so much, and training ends before this.
_CORPUS_SHARE, _END_SHARE = 0.4, 0.92


@dataclass(slots=True, kw_only=True)
class Run:
    """One training run in a folder.

    model: the target, opened with the layers of `weights.taps`. clock: seconds.
    """

    folder: Path
    plan: TrainPlan
    model: Model
    weights: TargetWeights
    tell: Tell
    clock: Callable[[], float] = time.monotonic
    began: float = 0.0

    def run(self) -> dict[str, Any]:
        """All phases; returns the evaluation."""
        self.began = self.clock()
        hidden, wanted = self.model.runtime.traits.n_hidden, len(self.weights.taps)
        if hidden != self.weights.hidden * wanted:
            raise CapabilityError(
                f"the target returns hidden states of width {hidden}, training reads "
                f"{self.weights.hidden * wanted}; open it on the native runtime, with the layers "
                f"{self.weights.taps}"
            )
        self.place.settle({**self.plan.identity(), "digest": self.weights.digest})
        corpus = self._timed("corpus", self._corpus)
        answers = self._timed("features", lambda: self._features(corpus))
        learning = Learning(
            place=self.place,
            plan=self.plan,
            weights=self.weights,
            corpus=corpus,
            answers=answers,
            tell=self.tell,
            clock=self.clock,
            left_s=self._left_s if self.plan.minutes else None,
        )
        found = learning.run(self.folder)
        (self.folder / "evaluation.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")
        return found

    @property
    def place(self) -> Workplace:
        """Files that only a later run needs."""
        return Workplace(self.folder / "work")

    def _timed(self, name: str, phase: Callable[[], Any]) -> Any:
        began = self.clock()
        result = phase()
        self.place.spent(name, self.clock() - began)
        return result

    def _left_s(self) -> float:
        return 60 * self.plan.minutes * _END_SHARE - (self.clock() - self.began)

    def _corpus(self) -> Corpus:
        plan, path = self.plan, self.place.folder / "documents.jsonl"
        n_tokens = int(self.place.noted().get("tokens", plan.tokens))
        found = gather(read_documents(path), n_tokens)
        if found is None:
            self.place.need(n_tokens * _TOKEN_BYTES, "the corpus")
            n_tokens = self._write(path, n_tokens)
            found = gather(read_documents(path), n_tokens)
        if found is None or len(found.documents) < 2 * plan.per_batch:
            raise ConfigError(
                f"the corpus has {len(found.documents) if found else 0} documents, too few to "
                "train on; give more --minutes or --tokens"
            )
        self.place.note(tokens=found.n_tokens)
        self.place.write("manifest.json", manifest(found, plan, self.weights.digest))
        return found

    def _write(self, path: Path, n_tokens: int) -> int:
        """Write documents; returns the tokens that stand in the end, at most `n_tokens`."""
        plan, stand = self.plan, 0
        until = self.began + 60 * plan.minutes * _CORPUS_SHARE

        def tell(total: int) -> bool:
            nonlocal stand
            stand = total
            self.tell(Report(phase="corpus", share=total / n_tokens, words=f"{total} tokens"))
            return not plan.minutes or self.clock() < until

        corpus = CorpusPlan(
            seed=plan.seed,
            n_tokens=n_tokens,
            seeds=shipped_seeds(),
            max_answer=plan.max_answer,
            prompts=plan.prompts,
            excluded=plan.excluded,
        )
        write_corpus(self.model, corpus, path, tell)
        return n_tokens if gather(read_documents(path), n_tokens) else max(stand, 1)

    def _features(self, corpus: Corpus) -> list[Answer]:
        most = self.plan.max_feature_bytes
        features = Features(
            self.place.folder / "features",
            n_taps=len(self.weights.taps),
            hidden=self.weights.hidden,
            max_bytes=most,
        )
        documents = corpus.documents
        rows = sum(len(d.answer) + 1 for d in documents) - features.n_rows
        if rows > 0:
            self.place.need(min(rows * features.row_bytes, most), "storing hidden states")

        def tell(done: int) -> bool:
            share, words = done / len(documents), f"{done}/{len(documents)} documents"
            self.tell(Report(phase="features", share=share, words=words))
            return True

        features.compute(self.model.runtime, documents, tell)
        return features.answers(documents)


def manifest(corpus: Corpus, plan: TrainPlan, digest: str) -> dict[str, Any]:
    """What a corpus is: seeds, hashes, and what was left out."""
    texts = sha256()
    kinds: dict[str, int] = {}
    for d in corpus.documents:
        texts.update(json.dumps([d.number, d.prompt, d.answer]).encode())
        kinds[d.kind] = kinds.get(d.kind, 0) + 1
    return {
        "seed": plan.seed,
        "target": digest,
        "documents": len(corpus.documents),
        "tokens": corpus.n_tokens,
        "kinds": kinds,
        "left_out": dict(corpus.left_out),
        "prompts_excluded_by_hash": len(plan.excluded),
        "sha256": texts.hexdigest(),
    }
