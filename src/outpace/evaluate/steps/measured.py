"""Tune, test, confirm: the same blocks on another part of the prompts.

The confirmation set is opened by a statement before the first of its prompts is asked, and once:
what was begun and not finished goes on, what was finished is not done again.
"""

from collections.abc import Mapping
from typing import Literal

from pydantic import JsonValue

from outpace.evaluate.data import Item
from outpace.evaluate.measure.blocks import Work
from outpace.evaluate.steps import openings
from outpace.evaluate.steps.probes import probe
from outpace.evaluate.steps.recovery import recovery
from outpace.evaluate.steps.session import Session


def tune(session: Session) -> Work:
    """All arms on dev. Any number of looks, and nothing may be claimed from them."""
    session.require("tune")
    return _blocks(session, "tune", session.items.part("dev"), {})


def test(session: Session) -> None:
    """All arms on the test part, once, and every probe the plan names."""
    session.require("test")
    work = session.work("test", session.items.part("test"), warm=session.warm())
    session.begin("test", _body(work, {}))
    with session.shell.watch("test", work.n_requests) as tell:
        session.measure(work, session.arms, tell)
    probe(session)
    found = recovery(session)
    session.note(
        "test",
        _body(work, {"recovery": found.model_dump(mode="json")} if found is not None else {}),
    )


def confirm(session: Session) -> None:
    """All arms on the confirmation part, opened once."""
    session.require("confirm")
    _open(session)
    _blocks(session, "confirm", session.items.part("confirm"), {})


def _open(session: Session) -> None:
    """State that the confirmation prompts are opened; once here, and each time elsewhere."""
    study, data = session.study, session.items.digests["data"]
    stated = {s.body.get("elsewhere") for s in study.statements if s.kind == "confirm"}
    for opening in openings.elsewhere(study, data):
        if opening not in stated:
            session.note("confirm", {"elsewhere": opening}, event="opened")
    problem = openings.note(study, data, at=session.shell.now())
    session.begin("confirm", {"prompts": len(session.items.confirm), "note": problem})


def _blocks(
    session: Session, phase: Literal["tune", "confirm"], items: tuple[Item, ...],
    more: Mapping[str, JsonValue],
) -> Work:  # fmt: skip
    work = session.work(phase, items, warm=session.warm())
    if phase == "tune":
        session.begin(phase, _body(work, {}))
    with session.shell.watch(phase, work.n_requests) as tell:
        session.measure(work, session.arms, tell)
    session.note(phase, _body(work, more))
    return work


def _body(work: Work, more: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {"requests": work.n_requests, "blocks": work.design.blocks, **more}
