"""A whole study on a table model: a plan, its prompts, and what the command line would provide."""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from outpace.api import Model
from outpace.core.score import Rows, Scores
from outpace.engine.service import Service
from outpace.evaluate.arms.opening import Tools
from outpace.evaluate.measure.blocks import Tell
from outpace.evaluate.plan.arms import Target
from outpace.evaluate.steps.session import Session, Shell, session
from outpace.evaluate.steps.walk import Walked, walk
from outpace.evaluate.study import Study, begin, found_at
from outpace.runtimes.toy import TableRuntime
from small import small_model

WORDS = ("tide", "moon", "harbour", "boat", "lamp", "rope", "gull", "salt", "wind", "quay")


class WorkTime:
    """Seconds that pass only when a model works or somebody sleeps; a pass takes 1 ms, give or
    take. What a study says of speeds is then the same on every machine."""

    def __init__(self) -> None:
        self._now_s, self._dice = 0.0, random.Random(1)

    def perf_counter(self) -> float:
        return self._now_s

    def sleep(self, seconds: float) -> None:
        self._now_s += seconds

    def rule(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """From now on, whatever measures one request at a time reads this clock."""
        real = TableRuntime.extend

        def extend(runtime: TableRuntime, batch: Seq[Rows]) -> list[Scores]:
            self.sleep(self._dice.uniform(0.8e-3, 1.2e-3))
            return real(runtime, batch)

        monkeypatch.setattr(TableRuntime, "extend", extend)
        for module in ("bench.client", "evaluate.measure.blocks", "evaluate.arms.planted"):
            monkeypatch.setattr(f"outpace.{module}.time", self)
        defaults = Service.__init__.__kwdefaults__
        assert defaults is not None
        monkeypatch.setitem(defaults, "clock", self.perf_counter)


def document(**changes: object) -> dict[str, Any]:
    """A small plan; keys at the top may be replaced."""
    return {
        "apiVersion": "outpace/v1",
        "kind": "EvaluationPlan",
        "metadata": {"name": "toy", "owner": "tests"},
        "decision": {
            "statement": "guess", "population": "toy prompts", "consequence_if_wrong": "none",
            "falsified_by": ["speed", "text"],
        },
        "target": {"model": "small"},
        "arms": {"baseline": {"drafter": "none"}, "candidate": {"drafter": "lookup"}},
        "data": {
            "source": "prompts.jsonl",
            "split": {"salt": "s", "dev": 0.2, "test": 0.5, "confirm": 0.3},
        },
        "sampling": {"max_tokens": 12, "ignore_eos": True},
        "design": {"blocks": 2, "warmup": 1},
        "criteria": [
            {"id": "text", "type": "same_text", "min_tokens": 40, "critical": True},
            {"id": "speed", "type": "superiority", "metric": "e2el", "min_effect": 1.0,
             "primary": True},
        ],
        **changes,
    }  # fmt: skip


def write(folder: Path, plan: Mapping[str, Any], n_prompts: int = 40) -> Path:
    """The plan's file, its prompts beside it."""
    lines = [
        {
            "id": f"p{i}", "category": ("a", "b")[i % 2],
            "prompt": " ".join(WORDS[(i * k + i // 10) % 10] + str(i) for k in range(1, 6)),
        }
        for i in range(n_prompts)
    ]  # fmt: skip
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "prompts.jsonl").write_text(text, encoding="utf-8")
    path = folder / "toy.yaml"
    path.write_text(yaml.safe_dump(dict(plan), sort_keys=False), encoding="utf-8")
    return path


def shell(
    folder: Path, *, stop_after: int | None = None, make: Callable[[], Model] = small_model,
    program: Mapping[str, object] | None = None,
) -> Shell:  # fmt: skip
    """What a command line provides. stop_after: interrupted after so much progress."""
    told = 0
    seconds = 0

    def now() -> datetime:
        nonlocal seconds
        seconds += 1
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)

    @contextmanager
    def watch(_label: str, _total: float) -> Iterator[Tell]:
        def tell(n: int, _what: str) -> None:
            nonlocal told
            told += n
            if stop_after is not None and told >= stop_after:
                raise KeyboardInterrupt

        yield tell

    @contextmanager
    def open_model(_target: Target, _drafters: tuple[str, ...]) -> Iterator[Model]:
        with make() as model:
            yield model

    tools = Tools(open_model=open_model, environ={}, logs=folder / "logs")
    return Shell(
        tools=tools, manifest=lambda _: None, now=now, watch=watch,
        program=program or {"version": "tests"},
    )  # fmt: skip


@contextmanager
def opened(path: Path, **options: Any) -> Iterator[Session]:
    """A session on a plan's file, its study beside it."""
    study = found_at(path, path.parent / "study")
    begin(study, path)
    with session(study, shell(path.parent, **options)) as made:
        yield made


def walked(path: Path, **options: Any) -> Walked:
    """All phases, as far as they go."""
    with opened(path, **options) as made:
        return walk(made, base=path.parent, say=lambda _: None)


def study_of(path: Path) -> Study:
    """The study beside a plan."""
    return found_at(path, path.parent / "study")
