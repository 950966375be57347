"""Variants of the test: the failure mode forced, and one assumption changed at a time.

Each variant asks the baseline and the changed arm in pairs, on a part of the test's prompts:
enough for an interval, few enough that all variants fit into the time of one test.
"""

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from outpace.evaluate.arms.arm import OpenArm
from outpace.evaluate.arms.local import LocalArm
from outpace.evaluate.arms.opening import open_arms
from outpace.evaluate.data import Item, bad_case, load, longer
from outpace.evaluate.measure.blocks import Work
from outpace.evaluate.measurement import Phase
from outpace.evaluate.plan.arms import InProcessArm, Planted
from outpace.evaluate.plan.document import BASELINE, CANDIDATE
from outpace.evaluate.plan.probes import (
    DrafterRemoved,
    ForcedAbstention,
    LongerContext,
    OtherData,
    Threads,
    WhatIf,
    WrongDrafter,
)
from outpace.evaluate.steps.session import Session, counter

# Prompts and blocks of a variant.
PROMPTS, BLOCKS = 12, 2
# Without the control, guesses are as many as a careless setting would make.
UNCONTROLLED_DEPTH = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One thing changed. arms: in place of the plan's, by name. threads: of the model."""

    phase: Phase
    name: str
    items: tuple[Item, ...]
    arms: tuple[tuple[str, InProcessArm | None], ...]
    threads: int | None = None


def probe(session: Session) -> None:
    """Measure every variant that the plan names and that these arms can show."""
    made = [*failure_variants(session), *what_if_variants(session)]
    works = [(variant, _work(session, variant)) for variant in made]
    total = sum(work.n_requests for _, work in works)
    if not total:
        return
    with session.shell.watch("probes", total) as tell:
        for variant, work in works:
            session.grades.learn(variant.items)
            with _arms(session, variant) as arms:
                session.measure(work, arms, tell)


def failure_variants(session: Session) -> Iterator[Variant]:
    """Forced acceptance, and cases that go wrong by themselves, with the control on and off."""
    mode, candidate = session.plan.failure_mode, session.plan.arms[CANDIDATE]
    if mode is None:
        return
    items = _some(session.items.part("test"))
    greedy = [
        replace(item, temperatures=(0.0,), later=()) for item in items if 0.0 in item.temperatures
    ]
    if isinstance(candidate, InProcessArm):
        for share in mode.forced_acceptance:
            forced = Planted(synthetic=f"alpha={share:g}")
            for control in ("on", "off"):
                arm = _controlled(candidate.model_copy(update={"test_only": forced}), control)
                yield Variant(
                    phase="failure_mode", name=f"alpha={share:g},control={control}",
                    items=tuple(greedy), arms=((BASELINE, None), (CANDIDATE, arm)),
                )  # fmt: skip
    everything = session.plan.data.model_copy(update={"limit": None})
    wider = load(
        everything, session.plan.sampling, counter(session.arms), folder=session.study.base
    )  # bad cases are rare: those of dev and test that a limit leaves out are asked too
    for case in mode.cases:
        bad = tuple(replace(item, later=()) for item in _some(bad_case(wider, case)))
        for control in ("on", "off") if isinstance(candidate, InProcessArm) else ("on",):
            changed = (
                _controlled(candidate, control) if isinstance(candidate, InProcessArm) else None
            )
            yield Variant(
                phase="failure_mode", name=f"case={case},control={control}", items=bad,
                arms=((BASELINE, None), (CANDIDATE, changed)),
            )  # fmt: skip


def what_if_variants(session: Session) -> Iterator[Variant]:
    """The plan's assumptions, changed."""
    items = _some(session.items.part("test"))
    for what in session.plan.what_if:
        match what:
            case DrafterRemoved() | WrongDrafter() | ForcedAbstention():
                yield _one_arm(session, what, items)
            case Threads():
                yield _all_arms(session, f"threads={what.threads}", items, threads=what.threads)
            case OtherData():
                data = session.plan.data.model_copy(
                    update={"filter": what.filter, "limit": None}
                    | ({"source": what.source} if what.source else {})
                )
                other = load(
                    data, session.plan.sampling, counter(session.arms), folder=session.study.base
                )
                name = ",".join(f"{k}={'+'.join(v)}" for k, v in what.filter.items())
                yield _all_arms(session, f"data:{name or what.source}", _some(other.part("test")))
            case LongerContext():
                count = counter(session.arms)
                long = tuple(longer(item, what.context_tokens, count) for item in items)
                yield _all_arms(session, f"longer_context={what.context_tokens}", long)


def _one_arm(session: Session, what: WhatIf, items: tuple[Item, ...]) -> Variant:
    name = what.arm if isinstance(what, DrafterRemoved | WrongDrafter | ForcedAbstention) else ""
    arm = session.plan.arms[name]
    assert isinstance(arm, InProcessArm)  # noqa: S101 - the linter refuses others
    if isinstance(what, DrafterRemoved):
        arm = arm.model_copy(update={"drafter": "none", "depth": None})
    elif isinstance(what, ForcedAbstention):
        arm = arm.model_copy(update={"force": "abstain"})
    elif isinstance(what, WrongDrafter):
        kind, _, how = what.drafter.partition(":")
        planted = {"test_only": Planted(synthetic=how)}
        arm = arm.model_copy(update=planted if kind == "synthetic" else {"drafter": what.drafter})
        if kind == "synthetic":
            items = tuple(replace(item, later=()) for item in items)
    return Variant(
        phase="what_if", name=what.change, items=items, arms=((BASELINE, None), (name, arm))
    )


def _all_arms(
    session: Session, name: str, items: tuple[Item, ...], *, threads: int | None = None
) -> Variant:
    arms = tuple((arm, None) for arm in session.plan.arms)
    return Variant(phase="what_if", name=name, items=items, arms=arms, threads=threads)


def _controlled(arm: InProcessArm, control: str) -> InProcessArm:
    """The arm with its control, or with a fixed depth in place of it."""
    return arm if control == "on" else arm.model_copy(update={"depth": UNCONTROLLED_DEPTH})


def _some(items: Seq[Item]) -> tuple[Item, ...]:
    """A few, spread over all: so many categories come up."""
    step = max(1, len(items) // PROMPTS)
    return tuple(items[::step][:PROMPTS])


def _work(session: Session, variant: Variant) -> Work:
    work = session.work(
        variant.phase, variant.items, arms=[name for name, _ in variant.arms], variant=variant.name
    )
    blocks = min(BLOCKS, work.design.blocks)
    return replace(work, design=work.design.model_copy(update={"blocks": blocks}))


@contextmanager
def _arms(session: Session, variant: Variant) -> Iterator[dict[str, OpenArm]]:
    """The variant's arms: those of the session, changed ones on the same model."""
    plan = session.plan
    if variant.threads is not None and plan.target is not None:
        target = plan.target.model_copy(update={"threads": variant.threads})
        wanted = {name: plan.arms[name] for name, _ in variant.arms}
        with open_arms(wanted, target, session.shell.tools) as arms:
            yield arms
        return
    with ExitStack() as stack:
        found: dict[str, OpenArm] = {}
        for name, changed in variant.arms:
            there = session.arms[name]
            if changed is None or not isinstance(there, LocalArm):
                found[name] = there
                continue
            made = LocalArm(name, changed, there.model)
            stack.callback(made.close)
            found[name] = made
        yield found
