"""Exactness and what timing rests on, found out before any timing."""

from collections.abc import Sequence as Seq
from contextlib import closing

from outpace.evaluate.arms import audit
from outpace.evaluate.arms.local import LocalArm
from outpace.evaluate.arms.remote import RemoteArm
from outpace.evaluate.arms.served.managed import environment_key
from outpace.evaluate.data import Item
from outpace.evaluate.exact import contract, texts, wire
from outpace.evaluate.exact.kept import Kept
from outpace.evaluate.exact.law import enumerate_law
from outpace.evaluate.exact.sampled import sampled_laws
from outpace.evaluate.exact.texts import Tick
from outpace.evaluate.judge.verified import (
    ContractCheck,
    LawCheck,
    LawWalk,
    TextCheck,
    Verified,
)
from outpace.evaluate.lineage import digest
from outpace.evaluate.phases import DEPENDS
from outpace.evaluate.plan.arms import Arm, EndpointArm, InProcessArm
from outpace.evaluate.plan.criteria import Contract, Criterion, ExactLaw, SameLaw, SameText
from outpace.evaluate.plan.document import BASELINE
from outpace.evaluate.steps.session import Session

# Texts are long, so a part of the prompts has to do: dev first, then of the test part.
MOST_PROMPTS = 24
# Of arms that no criterion judges by their text.
FEW_PROMPTS = 4


def verify(session: Session) -> Verified:
    """Find everything out, state it, and return it."""
    session.require("verify")
    plan, arms, limits = session.plan, session.arms, list[str]()
    asked = _prompts(session)
    same_text = [c for c in plan.criteria if isinstance(c, SameText)]
    n_texts = sum(len(item.temperatures) for item in asked) * (len(arms) - 1)
    basis = digest({k: v for k, v in session.lineage.fields.items() if _matters(k)})
    with (
        session.shell.watch("verify", n_texts if same_text else 0) as tick,
        closing(Kept(session.study.folder, basis)) as kept,
    ):
        tick(0, "do the arms differ in speculation only?")
        meant = {name: speculating(arm) for name, arm in plan.arms.items()}
        found = Verified(
            activity=audit.activity(arms, meant),
            same_model=audit.same_model(arms, BASELINE),
            config_effect=tuple(audit.config_effect(arms)),
            texts=tuple(_texts(session, asked, same_text, kept, tick)),
            exact_law=_law(plan.criteria, kept, tick),
            laws=_laws(session, asked, tick),
            contract=_contract(session, tick, limits),
        )
    limits += _unseen(session, found)
    found = found.model_copy(update={"limits": tuple(limits)})
    session.note("verify", found.model_dump(mode="json"))
    for arm in arms.values():
        arm.fresh()
    return found


def speculating(arm: Arm) -> bool | None:
    """Whether a plan's arm means to guess; None where only its server knows, or chance decides.

    A breaker that is held open still looks now and then whether guesses would pay.
    """
    if not isinstance(arm, InProcessArm) or arm.force == "breaker_open":
        return None
    return arm.guesses


def _prompts(session: Session) -> list[Item]:
    """A few of every category, dev before test."""
    by_category: dict[str, list[Item]] = {}
    for item in (*session.items.dev, *session.items.test):
        by_category.setdefault(item.category, []).append(item)
    found: list[Item] = []
    while len(found) < MOST_PROMPTS and any(by_category.values()):
        found += [left.pop(0) for left in by_category.values() if left]
    return found[:MOST_PROMPTS]


def _texts(
    session: Session, items: list[Item], wanted: list[SameText], kept: Kept, tick: Tick
) -> list[TextCheck]:
    if not wanted:
        return []
    n_tokens, seed = max(c.min_tokens for c in wanted), session.plan.design.seed
    base = session.arms[BASELINE]
    others = [arm for name, arm in session.arms.items() if name != BASELINE]
    if isinstance(base, LocalArm):
        judged = {c.arm for c in wanted}
        here = [arm for arm in others if isinstance(arm, LocalArm) and arm.name in judged]
        beside = [arm for arm in others if isinstance(arm, LocalArm) and arm.name not in judged]
        return [
            check
            for arms, some in ((here, items), (beside, items[:FEW_PROMPTS]))
            if arms
            for check in texts.compare(
                base, arms, some, n_tokens=n_tokens, seed=seed, kept=kept, tick=tick
            )
        ]
    if isinstance(base, RemoteArm):
        remote = [arm for arm in others if isinstance(arm, RemoteArm)]
        return wire.compare(base, remote, items, n_tokens=n_tokens, kept=kept, tick=tick)
    return []


def _unseen(session: Session, found: Verified) -> list[str]:
    """What texts could not show."""
    unchecked = [f"{t.arm} on {t.prompt}: {t.how}" for t in found.texts if t.verdict == "unchecked"]
    base = session.arms[BASELINE]
    for arm in session.arms.values():
        if isinstance(arm, LocalArm) != isinstance(base, LocalArm):
            unchecked.append(f"texts of {arm.name} were not compared with another program's")
    return unchecked


def _matters(field: str) -> bool:
    """Whether findings rest on a field of the lineage."""
    return field.partition("/")[0] in DEPENDS["verify"]


def _law(criteria: Seq[Criterion], kept: Kept, tick: Tick) -> LawWalk | None:
    if not any(isinstance(c, ExactLaw) for c in criteria):
        return None
    tick(0, "every path of the real round")
    return kept.law(enumerate_law)


def _laws(session: Session, items: list[Item], tick: Tick) -> dict[str, tuple[LawCheck, ...]]:
    if not any(isinstance(c, SameLaw) for c in session.plan.criteria):
        return {}
    return sampled_laws(session.arms, session.plan, items, tick)


def _contract(
    session: Session, tick: Tick, limits: list[str]
) -> dict[str, tuple[ContractCheck, ...]]:
    found: dict[str, tuple[ContractCheck, ...]] = {}
    for criterion in session.plan.criteria:
        if not isinstance(criterion, Contract) or criterion.arm in found:
            continue
        name, arm = criterion.arm, session.arms[criterion.arm]
        if not isinstance(arm, RemoteArm):
            limits.append(f"contract: {name} is in this process, and serves no HTTP")
            continue
        asked = session.plan.arms[name]
        variable = asked.api_key_env if isinstance(asked, EndpointArm) else None
        key = environment_key(variable, session.shell.tools.environ)
        found[name] = tuple(contract.check(arm, key=key, tick=tick))
    return found
