"""Whole studies whose truth is known: records, windows and statements as the phases write them.

A request is decoded round by round: a round offers `depth` guesses, each kept with the chance that
its category has, and takes the time of a pass and of its guesses. So acceptance, times and their
relation are those of a real decoder, and what the truth is stands in `Truth`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from pydantic import JsonValue

from outpace.bench.client import Speculation
from outpace.bench.record import Block, BlockId, Request
from outpace.evaluate.ledger import Event, Kind, Ledger, Statement
from outpace.evaluate.measurement import (
    RECORDS,
    Grade,
    Measurement,
    Measurements,
    Phase,
    Window,
    to_line,
)
from outpace.evaluate.plan.document import Plan
from outpace.journal import Journal

CATEGORIES = ("chat", "code", "edit", "arithmetic", "translate")
KEPT = {"chat": 0.45, "code": 0.65, "edit": 0.9, "arithmetic": 0.5, "translate": 0.35}
LANGUAGES = ("en", "en", "en", "de", "fr")
KINDS = ("ordinary", "ordinary", "ordinary", "difficult", "misleading")
LINEAGE = {
    "plan": "p", "data": "d", "split": "s", "weights": "w", "tokenizer": "t", "template": "m",
    "drafter/candidate": "auto", "drafter/baseline": "none", "flags/candidate": "f",
    "code": "c", "sampling": "a", "server": "v", "hardware": "h", "packages": "k",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What holds. factor: on the candidate's times besides what its guesses bring; overhead: of a
    guess, in passes; noise: of any time, as the standard deviation of its logarithm."""

    n_items: int = 40
    guesses: bool = True
    factor: float = 1.0
    overhead: float = 0.06
    depth: int = 4
    noise: float = 0.06
    failed: float = 0.0
    passes: float = 0.9
    quality_lost: float = 0.0
    pass_s: float = 0.002
    kept: Mapping[str, float] = field(default_factory=lambda: dict(KEPT))
    chunks: bool = False


class Study:
    """Builds what a folder holds, phase by phase."""

    def __init__(self, plan: Plan, truth: Truth, *, seed: int = 0) -> None:
        self.plan, self.truth = plan, truth
        self.rng = np.random.default_rng(seed)
        self.requests: list[Measurement] = []
        self.windows: list[Window] = []
        self.statements: list[Statement] = []
        self.order: list[int] = []  # of writing: index of a request, or -1 - that of a window
        self.say("lock")

    def say(self, kind: Kind, body: Mapping[str, JsonValue] | None = None,
            event: Event = "done") -> None:  # fmt: skip
        at = f"2026-03-01T10:{len(self.statements):02d}:00+00:00"
        self.statements.append(
            Statement(kind=kind, at=at, plan=self.plan.identity, event=event,
                      lineage={**LINEAGE, "plan": self.plan.identity}, body=body or {})
        )  # fmt: skip

    @property
    def measurements(self) -> Measurements:
        lines = {index: line for line, index in enumerate(self.order, start=1)}
        return Measurements(
            requests=tuple(self.requests), windows=tuple(self.windows),
            request_lines=tuple(lines[i] for i in range(len(self.requests))),
            window_lines=tuple(lines[-1 - i] for i in range(len(self.windows))),
        )  # fmt: skip

    def verify(self, **changes: JsonValue) -> None:
        self.say("verify", {**verified(), **changes})

    def measure(
        self, phase: Phase, *, variant: str = "", load: str = "closed:1", prefix: str = "",
        arms: Mapping[str, Truth] | None = None, n_items: int | None = None,
        rate_per_s: float | None = None, blocks: int | None = None,
    ) -> None:  # fmt: skip
        """All arms on all items, in blocks, turn about."""
        truths = arms or self.arms()
        items = n_items if n_items is not None else self.truth.n_items
        for repeat in range(blocks or self.plan.design.blocks):
            arrivals = self._arrivals(items, rate_per_s)
            written: dict[str, list[Measurement]] = {name: [] for name in truths}
            for i in range(items):
                shared = float(np.exp(self.rng.normal(0, self.truth.noise)))
                for arm, truth in truths.items():
                    block = BlockId(load=load, repeat=repeat, arm=arm)
                    made = self._measured(
                        truth, block, phase, variant, f"{prefix or phase}-{i}", i, arrivals[i],
                        shared,
                    )  # fmt: skip
                    self.order.append(len(self.requests))
                    self.requests.append(made)
                    written[arm].append(made)
            for arm, found in written.items():
                self._window(phase, variant, BlockId(load=load, repeat=repeat, arm=arm), found)

    def arms(self) -> dict[str, Truth]:
        """The truth of every arm of the plan."""
        plain = replace(self.truth, guesses=False, factor=1.0, failed=0.0, quality_lost=0.0)
        found = {"baseline": plain, "candidate": self.truth}
        if "fallback" in self.plan.arms:
            found["fallback"] = replace(plain, factor=1.005)
        return found

    def _arrivals(self, n: int, rate_per_s: float | None) -> list[float]:
        if rate_per_s is None:
            return [0.0] * n
        due_s: list[float] = np.cumsum(self.rng.exponential(1 / rate_per_s, n)).tolist()
        return due_s

    def _measured(
        self, truth: Truth, block: BlockId, phase: Phase, variant: str, name: str, i: int,
        due_s: float, shared: float,
    ) -> Measurement:  # fmt: skip
        category = CATEGORIES[i % len(CATEGORIES)]
        own = np.random.default_rng([i, len(name)])
        n_tokens = int(own.integers(40, 160))
        pass_s = truth.pass_s * shared * truth.factor * float(np.exp(own.normal(0, 0.15)))
        pass_s *= float(np.exp(self.rng.normal(0, truth.noise)))
        speculation, times, sizes = self._decode(truth, category, n_tokens, pass_s)
        failed = bool(self.rng.random() < truth.failed)
        first_s = due_s + 0.03 * shared * truth.factor
        chunks = () if failed else tuple(round(first_s + t, 6) for t in times)
        right = bool(own.random() < truth.passes) and not self.rng.random() < truth.quality_lost
        request = Request(
            block=block, attempt=0, item=name, category=category, turn=0, sched_s=round(due_s, 6),
            sent_s=round(due_s + 0.0004, 6), ended_s=chunks[-1] if chunks else due_s + 1.0,
            finish="error" if failed else "stop", error="connection reset" if failed else None,
            prompt_tokens=int(own.integers(20, 900)), completion_tokens=0 if failed else n_tokens,
            chunks_s=chunks, chunk_tokens=() if failed else sizes,
            speculation=None if failed else speculation,
            digest=f"{name}",
        )  # fmt: skip
        return Measurement(
            plan=self.plan.identity, phase=phase, variant=variant, order=i, request=request,
            temperature=0.0, seed=None, counted_by="engine",
            subgroups={
                "category": category, "language": LANGUAGES[(i // 5) % 5],
                "case_kind": KINDS[(i // 3) % 5], "temperature": "0",
                "prompt_length": "up to 128" if request.prompt_tokens < 128 else "up to 2048",
            },
            text=f"answer {i}", grade=Grade(check="exact", passed=right),
        )  # fmt: skip

    def _decode(
        self, truth: Truth, category: str, n_tokens: int, pass_s: float
    ) -> tuple[Speculation, list[float], tuple[int, ...]]:
        depth = truth.depth if truth.guesses else 0
        chance = truth.kept[category]
        lengths: dict[tuple[int, int], int] = {}
        times, sizes, at_s, tokens = [0.0], [1], 0.0, 1
        while tokens < n_tokens:
            offered = min(depth, n_tokens - tokens)
            kept = int(np.argmin(np.append(self.rng.random(offered) < chance, False)))
            lengths[offered, kept] = lengths.get((offered, kept), 0) + 1
            at_s += pass_s * (1 + truth.overhead * offered)
            step = min(kept + 1, n_tokens - tokens)
            tokens += step
            times.append(at_s)
            sizes.append(step)
        if not truth.chunks:
            times, sizes = [times[0], times[-1]], [1, n_tokens - 1]
        speculation = Speculation(
            rounds=sum(lengths.values()),
            drafted=sum(d * n for (d, _), n in lengths.items()),
            kept=sum(k * n for (_, k), n in lengths.items()),
            lengths=tuple((d, k, n) for (d, k), n in sorted(lengths.items())),
        )
        return speculation, times, tuple(sizes)

    def _window(
        self, phase: Phase, variant: str, block: BlockId, found: list[Measurement]
    ) -> None:  # fmt: skip
        spans = [m.request.ended_s - m.request.sched_s for m in found]
        wall_s = sum(spans) if block.load.startswith("closed") else max(
            m.request.ended_s for m in found
        )  # fmt: skip
        tokens = sum(m.request.completion_tokens for m in found)
        said = [m.request.speculation for m in found if m.request.speculation is not None]
        self.order.append(-1 - len(self.windows))
        self.windows.append(
            Window(
                plan=self.plan.identity, phase=phase, variant=variant,
                block=Block(block=block, attempt=0, wall_s=wall_s, full_s=wall_s,
                            full_tokens=tokens, requests=len(found)),
                cpu_s=1.9 * sum(spans), peak_bytes=420_000_000, own_tokens=tokens,
                foreign_tokens=0,
                counters={
                    "generation_tokens": float(tokens),
                    "drafts": float(sum(n for s in said for d, _, n in s.lengths if d)),
                    "draft_tokens": float(sum(s.drafted for s in said)),
                    "accepted_tokens": float(sum(s.kept for s in said)),
                },
            )
        )  # fmt: skip


def verified() -> dict[str, JsonValue]:
    """The body of a `verify` that found nothing wrong."""
    texts: list[JsonValue] = [
        {"arm": "candidate", "against": "baseline", "prompt": f"test-{i}", "temperature": 0.0,
         "verdict": "identical", "n_tokens": 512, "control": "identical",
         "at": None, "margin": None, "noise": None, "how": "token ids, in this process"}
        for i in range(12)
    ]  # fmt: skip
    return {
        "exact_law": {"tol": 1e-12, "worst": 2.2e-16, "at": "token, fork", "cases": 96,
                      "paths": 48210, "seconds": 3.1},
        "texts": texts,
        "laws": {},
        "contract": {},
        "activity": {
            "baseline": {"expected": False, "moved": False, "counters": {}, "why": "as planned"},
            "candidate": {"expected": True, "moved": True, "counters": {}, "why": "as planned"},
        },
        "same_model": {"same": True, "checks": []},
        "config_effect": [
            {"arm": "candidate", "option": "drafter", "value": "auto", "live": True,
             "found": "31 drafts, 118 guesses; with none: 0 drafts, 0 guesses"},
        ],
        "limits": [],
    }  # fmt: skip


def studied(
    plan: Plan, truth: Truth | None = None, *, seed: int = 0, confirm: bool = False,
    **verify: JsonValue,
) -> Study:  # fmt: skip
    """A study up to its test, or its confirmation."""
    study = Study(plan, truth or Truth(), seed=seed)
    study.verify(**verify)
    study.measure("test")
    study.say("test", {"requests": len(study.requests)})
    if confirm:
        study.say("confirm", event="opened")
        study.measure("confirm")
        study.say("confirm", {})
    return study


def failing(study: Study, *, control_works: bool = True) -> Iterator[str]:
    """Measure the failure mode of the plan; yields the variants."""
    mode = study.plan.failure_mode
    assert mode is not None
    cases = [(f"alpha={share:g}", share) for share in mode.forced_acceptance]
    cases += [(f"case={case}", 0.15) for case in mode.cases]
    plain = study.arms()["baseline"]
    for case, share in cases:
        for control in ("on", "off"):
            stops = control == "on" and control_works and share < 0.3
            candidate = replace(
                study.truth, kept=dict.fromkeys(CATEGORIES, share), guesses=not stops
            )
            variant = f"{case},control={control}"
            study.measure(
                "failure_mode", variant=variant, prefix="test",
                arms={"baseline": plain, "candidate": candidate}, n_items=24, blocks=1,
            )  # fmt: skip
            yield variant


WHAT_IF = ("drafter_removed", "wrong_drafter", "threads=1", "longer_context=1000")


def complete(plan: Plan, truth: Truth | None = None, *, seed: int = 0) -> Study:
    """A study with every phase done: what a report can show."""
    study = Study(plan, truth or Truth(chunks=True), seed=seed)
    study.verify()
    study.measure("test")
    list(failing(study))
    plain, candidate = (study.arms()[name] for name in ("baseline", "candidate"))
    for variant, other in zip(
        WHAT_IF,
        (plain, replace(candidate, kept=dict.fromkeys(CATEGORIES, 0.0)),
         replace(candidate, pass_s=2 * candidate.pass_s), replace(candidate, overhead=0.12)),
        strict=True,
    ):  # fmt: skip
        base = replace(plain, pass_s=other.pass_s)
        arms = {"baseline": base, "candidate": other}
        study.measure("what_if", variant=variant, prefix="test", arms=arms, n_items=24, blocks=1)
    study.say("test", {
        "requests": len(study.requests),
        "recovery": {"arm": "candidate", "fall_back_s": 0.41, "return_s": 0.9, "switches": 2,
                     "fall_back_tokens": 24, "return_tokens": 61, "found": "stopped and came back"},
    })  # fmt: skip
    study.say("confirm", event="opened")
    study.measure("confirm")
    study.say("confirm", {})
    study.measure("load", load="server", n_items=120, rate_per_s=2.0, blocks=1)
    study.say("load", {"valid": True})
    return study


def written(study: Study, folder: Path, text: str) -> Path:
    """A study as its folder. text: of the plan."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.yaml").write_text(text, encoding="utf-8")
    with Ledger(folder) as ledger:
        for statement in study.statements:
            ledger.append(statement)
    with Journal(folder / RECORDS) as journal:
        for at in study.order:
            journal.append(to_line(study.requests[at] if at >= 0 else study.windows[-1 - at]))
    return folder
