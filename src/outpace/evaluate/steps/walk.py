"""All phases in order, and where a person must decide.

The plan was locked, so what it says is done without asking again. Two things it cannot say: what
to do about wrong text (measuring its speed would waste time), and whether to spend a confirmation
set on a test that did not support the decision. There the walk stops and says so.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import JsonValue

from outpace.evaluate.judge import conclude
from outpace.evaluate.ledger import Kind
from outpace.evaluate.plan.criteria import Contract, ExactLaw, SameLaw, SameText
from outpace.evaluate.steps.load import load
from outpace.evaluate.steps.locking import lock
from outpace.evaluate.steps.measured import confirm, test
from outpace.evaluate.steps.session import Session
from outpace.evaluate.steps.verify import verify
from outpace.evaluate.verdict import Verdict

Say = Callable[[str], None]
_EXACT = (ExactLaw, SameText, SameLaw, Contract)


@dataclass(frozen=True, slots=True, kw_only=True)
class Walked:
    """Where a walk ended. stopped: what a person must decide; empty = nothing is left to do."""

    verdict: Verdict
    stopped: str


def walk(session: Session, *, base: Path, say: Say) -> Walked:
    """Do what is left, up to the end or to a decision.

    Raises:
        ConfigError: the plan cannot be locked, or something it rests on has changed.
    """
    did = False
    while True:
        state = session.state()
        kind, stopped = _next(session)
        if kind is None:
            verdict = verdict_of(session)
            if did or "verdict" not in state.done:
                state_verdict(session, verdict)
            return Walked(verdict=verdict, stopped=stopped)
        say(kind)
        did = True
        match kind:
            case "lock":
                lock(session, base=base)
            case "verify":
                verify(session)
            case "test":
                test(session)
            case "confirm":
                confirm(session)
            case _:
                load(session)


def verdict_of(session: Session) -> Verdict:
    """On everything that is there now."""
    study = session.study
    return conclude(study.plan, study.measurements(), study.statements)


def state_verdict(session: Session, verdict: Verdict) -> None:
    """Write the verdict into the ledger."""
    outcomes: JsonValue = json.loads(json.dumps([asdict(o) for o in verdict.outcomes]))
    session.note(
        "verdict",
        {
            "conclusion": verdict.conclusion, "words": verdict.words,
            "confirmed": verdict.confirmed, "reasons": list(verdict.reasons),
            "outcomes": outcomes,
        },
    )  # fmt: skip


def _next(session: Session) -> tuple[Kind | None, str]:
    """What comes now, or None and why a person must say what."""
    state = session.state()
    kind = state.next
    if kind in (None, "verdict"):
        return None, ""
    if kind == "test" and "verify" in state.done:
        wrong = _wrong_text(session)
        if wrong:
            return None, (
                f"{wrong}: the text or its law is wrong, so its speed does not matter; mend the "
                "arm, or run `outpace evaluate test` to measure it all the same"
            )
    if kind == "confirm":
        if (
            "load" in state.allowed
            and "load" not in state.done
            and "load" not in session.study.skip
        ):
            return "load", ""  # it may decide, and costs no unseen prompt
        verdict = verdict_of(session)
        if verdict.conclusion != "SUPPORTED":
            return None, (
                f"the test is {verdict.conclusion}: opening the confirmation set would spend it "
                "for nothing; `outpace evaluate confirm` opens it all the same"
            )
    return kind, ""


def _wrong_text(session: Session) -> str:
    """Critical exactness criteria that failed."""
    critical = {c.id for c in session.plan.criteria if isinstance(c, _EXACT) and c.must_have_data}
    failed = [o.id for o in verdict_of(session).outcomes if o.id in critical and o.status == "FAIL"]
    return ", ".join(failed)
