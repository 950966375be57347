"""What a rule finds, and what rules may know besides the plan."""

from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Literal

from outpace.evaluate.plan.criteria import Criterion
from outpace.evaluate.plan.document import Plan

Level = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """error: the plan cannot be locked. warning: it can, and the report repeats this.

    rule: its name, for tests and for those who filter. where: the key path.
    """

    level: Level
    rule: str
    where: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Prompts per part of the split. subgroups: of the test part, factor -> value -> prompts."""

    dev: int
    test: int
    confirm: int
    subgroups: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was looked up for the plan; None = not looked up, and not judged.

    drafters: registered names. prompts: counted from the data. traces: scenario -> arrivals in
    seconds since the first, as read with the plan's time unit and *before* its time scale.
    """

    drafters: frozenset[str] | None = None
    prompts: Counts | None = None
    traces: Mapping[str, Seq[float]] = field(default_factory=dict)


def error(rule: str, where: str, message: str) -> Finding:
    """A finding that must be mended."""
    return Finding(level="error", rule=rule, where=where, message=message)


def warning(rule: str, where: str, message: str) -> Finding:
    """A finding that must be known."""
    return Finding(level="warning", rule=rule, where=where, message=message)


def criteria(plan: Plan) -> Iterator[tuple[str, Criterion]]:
    """Criteria with where they stand."""
    for i, criterion in enumerate(plan.criteria):
        yield f"criteria[{i}]", criterion
