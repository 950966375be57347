"""Which phase may run follows from the statements, and from what changed since."""

import pytest

from outpace.errors import ConfigError
from outpace.evaluate.ledger import Event, Kind, Statement
from outpace.evaluate.phases import DEPENDS, changes, what_follows

NOW = {
    "plan": "p", "data": "d", "split": "s", "weights/target": "w", "tokenizer": "t",
    "flags/candidate": "--spec", "code": "c", "hardware": "h",
}  # fmt: skip
ORDER: tuple[Kind, ...] = ("lock", "verify", "test", "confirm", "load", "verdict")


def stated(
    kind: Kind, event: Event = "done", body: dict[str, bool] | None = None, **other: str
) -> Statement:
    lineage = {**NOW, **{k.replace("__", "/"): v for k, v in other.items()}}
    return Statement(
        kind=kind, at="2026-03-01T12:00:00+00:00", plan=lineage["plan"], event=event,
        lineage=lineage, body=dict(body or {}),
    )  # fmt: skip


def test_phases_come_in_their_order() -> None:
    said: list[Statement] = []
    for kind in ORDER:
        state = what_follows(said, NOW)
        assert state.next == kind
        state.require(kind)
        if kind == "confirm":
            said.append(stated(kind, "opened"))
        said.append(stated(kind))
    assert what_follows(said, NOW).next is None
    assert what_follows(said).plan == "p"
    assert set(what_follows(said, NOW).done) == set(ORDER)


@pytest.mark.parametrize(
    ("done", "kind"),
    [
        ((), "verify"),
        ((), "test"),
        (("lock",), "test"),
        (("lock",), "tune"),
        (("lock", "verify"), "confirm"),
        (("lock", "verify"), "load"),
        ((), "verdict"),
        ((), "deviation"),
    ],
)
def test_a_phase_out_of_turn_is_refused(done: tuple[Kind, ...], kind: Kind) -> None:
    state = what_follows([stated(k) for k in done], NOW)
    with pytest.raises(ConfigError, match=f"{kind} needs .* before it; there is none"):
        state.require(kind)


@pytest.mark.parametrize("kind", ["lock", "verify", "test", "confirm", "load"])
def test_what_is_done_once_is_not_done_twice(kind: Kind) -> None:
    state = what_follows([stated(k) for k in ORDER], NOW)
    with pytest.raises(ConfigError, match="done once"):
        state.require(kind)


def test_tuning_and_deviations_may_be_many() -> None:
    said = [stated("lock"), stated("verify"), stated("tune"), stated("tune")]
    state = what_follows([*said, stated("deviation"), stated("deviation")], NOW)
    state.require("tune")
    state.require("deviation")
    assert len(state.deviations) == 2


def test_an_invalid_load_run_may_be_repeated() -> None:
    said = [stated("lock"), stated("verify"), stated("test"), stated("load", body={"valid": False})]
    what_follows(said, NOW).require("load")
    with pytest.raises(ConfigError, match="done once"):
        what_follows([*said[:-1], stated("load", body={"valid": True})], NOW).require("load")


@pytest.mark.parametrize(
    ("field", "left"),
    [
        ("plan", set()),
        ("data", set()),
        ("weights/target", set()),
        ("flags/candidate", {"lock"}),
        ("code", {"lock"}),
        ("hardware", {"lock", "verify"}),
        ("notes", {"lock", "verify", "test"}),
    ],
)
def test_a_change_undoes_what_rested_on_it(field: str, left: set[Kind]) -> None:
    said = [stated("lock"), stated("verify"), stated("test")]
    state = what_follows(said, {**NOW, field: "changed"})
    assert set(state.done) == left
    assert {s.kind for s in state.stale} == {"lock", "verify", "test"} - left
    if state.stale:
        assert field in state.stale[0].changed
        with pytest.raises(ConfigError, match="no longer counts"):
            state.require("confirm")


def test_a_field_that_appears_or_goes_is_a_change() -> None:
    assert changes("lock", NOW, {**NOW, "weights/draft": "x"}) == ("weights/draft",)
    assert changes("lock", {**NOW, "weights/draft": "x"}, NOW) == ("weights/draft",)
    assert changes("deviation", NOW, {}) == ()
    assert set(DEPENDS["lock"]) < set(DEPENDS["verify"]) < set(DEPENDS["test"])


def test_a_change_between_statements_is_seen_without_looking_around() -> None:
    said = [stated("lock"), stated("verify"), stated("test", flags__candidate="--other")]
    state = what_follows(said)
    assert [(s.n, s.kind, s.changed) for s in state.stale] == [
        (2, "verify", ("flags/candidate",)),
        (3, "test", ("verify",)),
    ]
    assert state.next == "verify"


def test_a_new_lock_begins_anew_and_forgets_no_opening() -> None:
    first = [stated("lock"), stated("verify"), stated("test"), stated("confirm", "opened")]
    first.append(stated("confirm"))
    assert what_follows(first, NOW).n_openings == 1
    edited = {**NOW, "plan": "q", "split": "other salt"}
    again = [
        Statement(kind=s.kind, at=s.at, plan="q", event=s.event, lineage=edited) for s in first
    ]
    assert what_follows([*first, again[0]], edited).next == "verify"
    assert what_follows([*first, *again], edited).n_openings == 2
    other = {**edited, "data": "other"}
    assert what_follows([*first, *again], other).n_openings == 0


def test_an_opened_confirmation_is_resumed_not_opened_again() -> None:
    said = [stated("lock"), stated("verify"), stated("test"), stated("confirm", "opened")]
    state = what_follows(said, NOW)
    assert state.opened is said[-1]
    assert (state.next, state.n_openings) == ("confirm", 1)
    assert what_follows([*said, stated("confirm")], NOW).opened is None


def test_phases_the_plan_lacks_are_left_out() -> None:
    said = [stated("lock"), stated("verify"), stated("test")]
    assert what_follows(said, NOW, skip=frozenset({"confirm", "load"})).next == "verdict"
