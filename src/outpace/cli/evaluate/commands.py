"""The commands: each reads a study, does one thing, and says what came of it.

Exit codes: 0 supported, 1 refuted, 2 inconclusive, 3 invalid, 4 wrong use or something missing.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outpace.cli.evaluate import show
from outpace.cli.evaluate.shell import command, plan_file, shell_of
from outpace.cli.terminal import print_json, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from outpace.evaluate.steps.session import Session
    from outpace.evaluate.study import Study

PlanArgument = Annotated[Path, typer.Argument(help="A plan's file, or the folder of its study.")]
OutOption = Annotated[Path | None, typer.Option(help="Folder of the study.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


@command
def lint(plan: PlanArgument, out: OutOption = None, as_json: JsonOption = False) -> int:
    """Can this plan answer its question? Exit code 4 if it cannot be locked."""
    from dataclasses import asdict

    from outpace.evaluate.steps.locking import findings
    from outpace.evaluate.study import found_at

    found = findings(found_at(plan, out))
    errors = sum(f.level == "error" for f in found)
    if as_json:
        print_json({"schema": 1, "errors": errors, "findings": [asdict(f) for f in found]})
    else:
        show.findings(found)
        say(f"{errors} errors, {len(found) - errors} warnings")
    return 4 if errors else 0


@command
def lock(plan: PlanArgument, out: OutOption = None, as_json: JsonOption = False) -> int:
    """Fix the plan before anything is measured: every arm answers, every prompt is read."""
    from outpace.evaluate.steps.locking import lock as lock_it

    def do(session: "Session") -> int:
        found = lock_it(session, base=plan_base(session.study, plan))
        show.findings(found)
        document = show.state_document(session.study, session.state())
        if as_json:
            print_json(document)
        else:
            show.state(document)
        return 0

    return _in_session(plan, out, do)


@command
def verify(plan: PlanArgument, out: OutOption = None, as_json: JsonOption = False) -> int:
    """Is the text right, and do the arms differ in speculation only?"""
    from outpace.evaluate.steps.verify import verify as verify_it

    return 1 if _phase(plan, out, verify_it, as_json=as_json) == 1 else 0


@command
def tune(plan: PlanArgument, out: OutOption = None, as_json: JsonOption = False) -> int:
    """Measure all arms on dev, as often as you like; nothing may be claimed from it."""
    from outpace.cli.evaluate.tuned import look
    from outpace.evaluate.steps.measured import tune as tune_it

    def do(session: "Session") -> int:
        tune_it(session)
        look(session, as_json=as_json)
        return 0

    return _in_session(plan, out, do)


@command
def measure(plan: PlanArgument, out: OutOption = None, as_json: JsonOption = False) -> int:
    """Measure all arms on the test part, once, with every probe of the plan."""
    from outpace.evaluate.steps.measured import test as test_it

    return _phase(plan, out, test_it, as_json=as_json)


@command
def confirm(plan: PlanArgument, out: OutOption = None, as_json: JsonOption = False) -> int:
    """Open the confirmation part, once, and measure all arms on it."""
    from outpace.evaluate.steps.measured import confirm as confirm_it

    return _phase(plan, out, confirm_it, as_json=as_json)


@command
def load(plan: PlanArgument, out: OutOption = None, as_json: JsonOption = False) -> int:
    """Run the load scenarios: requests that come when they come."""
    from outpace.evaluate.steps.load import load as load_it

    return _phase(plan, out, load_it, as_json=as_json)


@command
def run(
    plan: PlanArgument, out: OutOption = None, as_json: JsonOption = False,
) -> int:  # fmt: skip
    """All phases in order, from where the study stands; stops where a person must decide."""
    from outpace.evaluate.steps.walk import walk

    def do(session: "Session") -> int:
        base = plan_base(session.study, plan)
        walked = walk(session, base=base, say=lambda kind: say(f"[bold]{kind}[/]"))
        show.outcome(session.study, walked.verdict, stopped=walked.stopped, as_json=as_json)
        return walked.verdict.exit_code

    return _in_session(plan, out, do)


@command
def status(plan: PlanArgument, out: OutOption = None, as_json: JsonOption = False) -> int:
    """What was done, what no longer counts and why, and what is next."""
    from outpace.evaluate.study import found_at

    study = found_at(plan, out)
    document = show.state_document(study, study.state())
    if as_json:
        print_json(document)
    else:
        show.state(document)
    return 0


@command
def deviate(
    plan: PlanArgument,
    what: Annotated[str, typer.Option(help="What was done otherwise than planned, and why.")],
    out: OutOption = None,
) -> int:
    """Write down a deviation from the plan; the report shows it beside the verdict."""
    from datetime import datetime

    from outpace.evaluate.study import found_at

    study = found_at(plan, out)
    study.state().require("deviation")
    study.note("deviation", at=datetime.now().astimezone(), lineage={}, body={"what": what})
    return 0


def plan_base(study: "Study", plan: Path) -> Path:
    """What relative paths of the plan start from."""
    return plan.parent if plan.is_file() else study.base


def _in_session(plan: Path, out: Path | None, do: "Callable[[Session], int]") -> int:
    from outpace.evaluate.steps.locking import findings, refuse
    from outpace.evaluate.steps.session import session
    from outpace.evaluate.study import begin, found_at

    study = found_at(plan, out)
    if "lock" not in study.state().done:
        refuse(findings(study))  # before any model is opened
    begin(study, plan_file(study, plan))
    with session(study, shell_of(study)) as opened:
        return do(opened)


def _phase(
    plan: Path, out: Path | None, phase: "Callable[[Session], object]", *, as_json: bool
) -> int:
    def do(session: "Session") -> int:
        phase(session)
        return _told(session, as_json=as_json)

    return _in_session(plan, out, do)


def _told(session: "Session", *, as_json: bool) -> int:
    """The verdict as it stands, and its exit code."""
    from outpace.evaluate.steps.walk import verdict_of

    verdict = verdict_of(session)
    show.outcome(session.study, verdict, as_json=as_json)
    return verdict.exit_code
