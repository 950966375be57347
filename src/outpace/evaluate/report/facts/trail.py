"""What it rests on: lineage, the ledger's statements, limits and deviations."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from outpace.evaluate.judge.validity import guessed
from outpace.evaluate.plan.arms import InProcessArm
from outpace.evaluate.plan.document import CANDIDATE
from outpace.evaluate.report.facts.use import resources
from outpace.evaluate.report.shape import Event, Traced
from outpace.evaluate.report.study import TEST, Reported

_SHORT = 16
_MOST = 6000


def lineage(study: Reported) -> tuple[Traced, ...]:
    """Every field of the last statement's lineage; those that differ between arms are the
    treatment, and stand with both values."""
    fields = next((e.statement.lineage for e in reversed(study.entries) if e.statement.lineage), {})
    made = []
    for name in sorted({key.partition("/")[0] for key in fields}):
        arms = tuple(
            (key.partition("/")[2], _spelled(study.lineage, key, value))
            for key, value in sorted(fields.items())
            if key.startswith(f"{name}/")
        )
        whole = fields.get(name)
        made.append(
            Traced(
                field=name, arms=arms, treatment=len({value for _, value in arms}) > 1,
                value=_spelled(study.lineage, name, whole) if whole is not None else "",
                details=_details(study.lineage, name),
            )
        )  # fmt: skip
    return tuple(made)


def events(study: Reported) -> tuple[Event, ...]:
    """The statements of the ledger, and which of them no longer count."""
    stale = {s.n: s.changed for s in study.evidence.state.stale}
    return tuple(
        Event(
            n=e.n, kind=e.statement.kind, event=e.statement.event, at=e.statement.at,
            sha256=e.sha256, counts=e.n not in stale, changed=stale.get(e.n, ()),
        )
        for e in study.entries
    )  # fmt: skip


def deviations(study: Reported) -> tuple[str, ...]:
    """What was done otherwise than planned, as it was noted."""
    made = []
    for s in study.evidence.state.deviations:
        words = s.body.get("words") or s.body.get("reason") or s.body.get("text")
        made.append(f"{s.at}: {words or dict(s.body)}")
    return tuple(made)


def limits(study: Reported) -> tuple[str, ...]:
    """What this report cannot say."""
    return tuple(dict.fromkeys(_limits(study)))


def _limits(study: Reported) -> Iterator[str]:
    plan, state = study.evidence.plan, study.evidence.state
    yield f"It holds for this population: {plan.decision.population}."
    yield from (_sentence(text) for text in study.verified.limits)
    for arm in plan.arms:
        if guessed(study.evidence, TEST, arm) is None and study.evidence.requests(TEST, arm):
            yield f"{arm} tells nothing of its guesses: it was measured from the client alone."
    if "test" not in state.done and study.evidence.rows:
        yield "The test is not done: figures show what is there so far, and nothing is judged."
    if "confirm" not in state.done and plan.data.split.confirm:
        yield "The confirmation set was not opened: the verdict rests on the test alone."
    if plan.load is not None and "load" not in state.done:
        yield "The load scenarios were not run: nothing is said about traffic."
    for used in resources(study):
        if used.energy_j_per_token is None:
            yield "The machine reports no energy."
        if used.cores_busy is None:
            yield f"{used.arm} reports no processor time, so no cost."
    yield from _unchecked(study)
    yield from _planted(study)
    for stale in state.stale:
        changed = ", ".join(stale.changed)
        yield f"Statement {stale.n} ({stale.kind}) no longer counts: {changed} changed."
    lock = state.done.get("lock")
    for key in ("warnings", "notes"):
        found = lock.body.get(key) if lock is not None else None
        if isinstance(found, list):
            yield from (_sentence(str(text)) for text in found)


def _unchecked(study: Reported) -> Iterator[str]:
    counts = {used.arm: used.requests - used.checked for used in resources(study)}
    if len(set(counts.values())) == 1 and any(counts.values()):
        n = next(iter(counts.values()))
        yield f"{n} answers of each arm have no check: they count as useful."
        return
    for arm, n in counts.items():
        if n:
            yield f"{n} answers of {arm} have no check: they count as useful."


def _planted(study: Reported) -> Iterator[str]:
    for name, arm in study.evidence.plan.arms.items():
        if isinstance(arm, InProcessArm) and arm.test_only is not None:
            faults = arm.test_only.model_dump(exclude_defaults=True)
            yield f"{name} carries faults that were planted on purpose: {faults}."


def describe(study: Reported, name: str) -> str:
    """An arm as its plan writes it, without defaults."""
    arm = study.evidence.plan.arms[name]
    document = arm.model_dump(mode="json", exclude_defaults=True, exclude={"test_only"})
    if isinstance(arm, InProcessArm):
        document = {"drafter": arm.drafter, **document}
    document = document.get("serve", document)
    words = (f"{key} {value}" for key, value in document.items() if value not in ({}, [], None))
    return ", ".join(words)


def maintenance(study: Reported) -> str:
    """What has to be looked after from now on."""
    fields = sorted({key.partition("/")[0] for e in study.entries for key in e.statement.lineage})
    arm = study.evidence.plan.arms[CANDIDATE]
    own = "no weights of its own"
    if isinstance(arm, InProcessArm) and ("model:" in arm.drafter or "head" in arm.drafter):
        own = "weights of its own, to be kept in step with the model's"
    elif not isinstance(arm, InProcessArm):
        own = "whatever the server loads for it"
    if not fields:
        return f"the drafter has {own}"
    return f"the drafter has {own}; a change of {', '.join(fields)} asks for another evaluation"


def _spelled(document: Mapping[str, Any], key: str, digest: str) -> str:
    """What a digest stands for where that is short, else the digest's beginning."""
    value = document.get(key)
    if isinstance(value, str) and len(value) <= 60:
        return value if value != digest else digest[:_SHORT]
    if isinstance(value, dict):
        plain = {k: v for k, v in value.items() if isinstance(v, str | int | float | bool)}
        words = ", ".join(f"{k} {v}" for k, v in plain.items())
        if 0 < len(words) <= 120:
            return words
    return digest[:_SHORT] if len(digest) > 2 * _SHORT else digest


def _details(document: Mapping[str, Any], name: str) -> str:
    """Everything the digests of a field stand for, as JSON; nothing where that is short."""
    found = {
        key.partition("/")[2] or name: value
        for key, value in document.items()
        if key.partition("/")[0] == name and isinstance(value, dict | list)
    }
    if not found:
        return ""
    whole = found[name] if list(found) == [name] else found
    text = json.dumps(whole, indent=1, ensure_ascii=False, sort_keys=True)
    return (
        text if len(text) <= _MOST else f"{text[:_MOST]}\n… {len(text) - _MOST:,} more characters"
    )


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."
