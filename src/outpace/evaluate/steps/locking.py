"""Before anything is measured: what the linter must look up, and the lock."""

import os
from collections.abc import Mapping
from pathlib import Path

from outpace.bench.arrivals import replay
from outpace.drafters.registry import names
from outpace.errors import ConfigError
from outpace.evaluate.data import counts, load
from outpace.evaluate.plan.lint import Facts, Finding, lint
from outpace.evaluate.plan.load import Replay
from outpace.evaluate.steps.session import Session
from outpace.evaluate.study import Study


def findings(study: Study) -> tuple[Finding, ...]:
    """Everything the linter can say, with drafters, prompts and traces looked up.

    Raises:
        ConfigError: the data or a trace cannot be read.
    """
    plan = study.plan
    items = load(plan.data, plan.sampling, folder=study.base)
    return lint(
        plan,
        Facts(
            drafters=frozenset(names()), prompts=counts(items), traces=_traces(study),
        ),
    )  # fmt: skip


def lock(session: Session, *, base: Path) -> tuple[Finding, ...]:
    """Fix the plan; returns warnings, which the report repeats.

    Raises:
        ConfigError: the linter found errors, or the plan was locked before.
    """
    found = findings(session.study)
    refuse(found)
    session.require("lock")
    session.study.keep_lineage(session.lineage.document)
    counted = counts(session.items)
    session.note(
        "lock",
        {
            "base": os.path.relpath(base.resolve(), session.study.folder.resolve()),
            "warnings": [f"{f.where}: {f.message}" for f in found],
            "counts": {"dev": counted.dev, "test": counted.test, "confirm": counted.confirm},
            "notes": list(session.items.notes),
        },
    )
    return found


def refuse(found: tuple[Finding, ...]) -> None:
    """Errors of the linter end here.

    Raises:
        ConfigError: there are any; all are named.
    """
    errors = [f"{f.where}: {f.message} ({f.rule})" for f in found if f.level == "error"]
    if errors:
        raise ConfigError("the plan cannot be locked:\n" + "\n".join(errors))


def _traces(study: Study) -> Mapping[str, list[float]]:
    """Arrivals of each trace, in seconds of the trace."""
    found: dict[str, list[float]] = {}
    for scenario in study.plan.load.scenarios if study.plan.load is not None else ():
        if isinstance(scenario, Replay):
            made = replay(study.base / scenario.trace, time_unit=scenario.time_unit)
            found[scenario.name] = [arrival.at_s for arrival in made.arrivals]
    return found
