"""`report` and `compare`: what a study shows, and how two of them differ."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outpace.cli.evaluate import show
from outpace.cli.evaluate.commands import JsonOption, OutOption, PlanArgument
from outpace.cli.evaluate.shell import command
from outpace.cli.terminal import print_json
from outpace.errors import ConfigError

if TYPE_CHECKING:
    from outpace.evaluate.study import Study
    from outpace.evaluate.verdict import Verdict


@command
def report(plan: PlanArgument, out: OutOption = None, as_json: JsonOption = False) -> int:
    """Write the report's four files from what is there, and show the verdict."""
    from outpace.evaluate.judge import conclude
    from outpace.evaluate.study import found_at

    study = found_at(plan, out)
    if not study.statements:
        raise ConfigError(f"nothing was done in {study.folder} yet; `outpace evaluate run` begins")
    verdict = conclude(study.plan, study.measurements(), study.statements)
    show.outcome(study, verdict, as_json=as_json)
    return verdict.exit_code


@command
def compare(
    first: Annotated[Path, typer.Argument(help="Folder of a study.")],
    second: Annotated[Path, typer.Argument(help="Folder of another.")],
    treatment: Annotated[
        list[str] | None,
        typer.Option(help="A lineage field that may differ, such as code or flags; repeatable."),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Two studies side by side, if they differ in nothing but the declared treatment."""
    from outpace.evaluate.judge import conclude
    from outpace.evaluate.lineage import undeclared
    from outpace.evaluate.study import found_at

    studies = [found_at(path) for path in (first, second)]
    fields = [_lineage(study) for study in studies]
    differ = undeclared(fields[0], fields[1], frozenset(treatment or ()))
    if differ:
        raise ConfigError(
            f"{first} and {second} differ in {', '.join(differ)}, which nobody declared: their "
            f"numbers say nothing about each other. If that is what you compare, add "
            + " ".join(f"--treatment {name}" for name in dict.fromkeys(_names(differ)))
        )
    verdicts = [conclude(s.plan, s.measurements(), s.statements) for s in studies]
    rows = _rows(*verdicts)
    if as_json:
        print_json({
            "schema": 1, "treatment": treatment or [], "outcomes": rows,
            "verdicts": [v.words for v in verdicts],
        })  # fmt: skip
    else:
        show.compared(rows, [str(first), str(second)], [v.words for v in verdicts])
    return 0


def _lineage(study: "Study") -> dict[str, str]:
    for statement in reversed(study.statements):
        if statement.lineage:
            return dict(statement.lineage)
    raise ConfigError(f"nothing was done in {study.folder} yet; there is nothing to compare")


def _names(fields: tuple[str, ...]) -> list[str]:
    return [field.partition("/")[0] for field in fields]


def _rows(a: "Verdict", b: "Verdict") -> list[dict[str, Any]]:
    others = {o.id: o for o in b.outcomes}
    return [
        {
            "id": o.id, "first": {"status": o.status, "found": o.found},
            "second": {"status": others[o.id].status, "found": others[o.id].found}
            if o.id in others else None,
        }
        for o in a.outcomes
    ]  # fmt: skip
