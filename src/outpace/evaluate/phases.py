"""What may happen next, read from the statements alone.

    lock -> verify -> tune (any number of times) -> test (once) -> confirm (once) -> load
    deviation, verdict: any time after a lock

Each phase needs the one before it to be done, for this plan, on what is there now. Tuning may be
left out. Load needs a test, not a confirmation; a load run judged invalid may be repeated.
"""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from outpace.errors import ConfigError
from outpace.evaluate.ledger import KINDS, Kind, Statement

# What a phase rests on: fields of a lineage, as they are before a slash. A field that is not
# listed (`hardware/...` for an exactness check) may change without undoing the phase.
_MODEL = ("plan", "data", "split", "weights", "tokenizer", "template", "drafter")
_RUN = (*_MODEL, "flags", "code", "sampling", "server")
DEPENDS: Mapping[Kind, tuple[str, ...]] = {
    "lock": _MODEL,
    "verify": _RUN,
    "tune": _RUN,
    "test": (*_RUN, "hardware", "packages"),
    "confirm": (*_RUN, "hardware", "packages"),
    "load": (*_RUN, "hardware", "packages"),
    "verdict": (*_RUN, "hardware", "packages"),
    "deviation": (),
}
_NEEDS: Mapping[Kind, Kind | None] = {
    "lock": None,
    "verify": "lock",
    "tune": "verify",
    "test": "verify",
    "confirm": "test",
    "load": "test",
    "verdict": "lock",
    "deviation": "lock",
}
_ONCE: tuple[Kind, ...] = ("lock", "verify", "test", "confirm", "load")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale:
    """A statement that no longer counts. n: its line. changed: lineage fields, or the phases it
    rested on and that are stale themselves."""

    n: int
    kind: Kind
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Where an evaluation stands.

    done: the latest statement of each kind that still counts. n_openings: how often the
    confirmation set of the current data was opened, under whatever plan. opened: a confirmation
    that was begun and not finished; it is resumed, not opened again. allowed: what may be appended
    or run now. next: what `run` does now; None = nothing is left.
    """

    plan: str | None
    done: Mapping[Kind, Statement]
    stale: tuple[Stale, ...]
    n_openings: int
    opened: Statement | None
    deviations: tuple[Statement, ...]
    allowed: tuple[Kind, ...]
    next: Kind | None

    def require(self, kind: Kind) -> None:
        """Refuse a phase whose turn it is not.

        Raises:
            ConfigError: what has to be done first, and why what was done does not count.
        """
        if kind in self.allowed:
            return
        needed = _NEEDS[kind]
        if needed is not None and needed not in self.done:
            why = next((s for s in reversed(self.stale) if s.kind == needed), None)
            past = (
                f"the one in line {why.n} no longer counts, since {', '.join(why.changed)} changed"
                if why
                else "there is none"
            )
            raise ConfigError(f"{kind} needs {needed} before it; {past}; run {needed}")
        raise ConfigError(
            f"{kind} was done once for this plan, and is done once; "
            "to measure again, change the plan and lock it in a new folder"
        )


def what_follows(
    statements: Seq[Statement],
    now: Mapping[str, str] | None = None,
    *,
    skip: frozenset[Kind] = frozenset(),
) -> State:
    """The state after these statements.

    now: the lineage as it is at this moment; without it the last statement's is taken, so that
    what happened between statements is seen, and what happened after the last one is not. Every
    statement but a deviation carries the whole lineage. skip: phases the plan does not have, left
    out of `next`.
    """
    reference = now if now is not None else _latest_lineage(statements)
    done: dict[Kind, Statement] = {}
    opened: Statement | None = None
    stale: list[Stale] = []
    for n, statement in enumerate(statements, start=1):
        kind = statement.kind
        if kind == "lock":
            stale += _undone(statements[: n - 1], done) if kind in done else []
            done, opened = {}, None
        why = _why_stale(statement, reference, done)
        if why:
            if statement.event == "done" and kind != "deviation":
                stale.append(Stale(n=n, kind=kind, changed=why))
        elif statement.event == "opened":
            opened = statement if kind == "confirm" else opened
        else:
            done[kind] = statement
            opened = None if kind == "confirm" else opened
    allowed = tuple(kind for kind in KINDS if _allowed(kind, done))
    return State(
        plan=done["lock"].plan if "lock" in done else None,
        done=done,
        stale=tuple(stale),
        n_openings=_openings(statements, reference),
        opened=opened,
        deviations=tuple(s for s in statements if s.kind == "deviation"),
        allowed=allowed,
        next=next((k for k in _ORDER if k in allowed and k not in done and k not in skip), None),
    )


_ORDER: tuple[Kind, ...] = ("lock", "verify", "test", "confirm", "load", "verdict")


def changes(kind: Kind, was: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Fields that differ and that a phase of this kind rests on; one that is absent differs."""
    return tuple(
        key
        for key in sorted({*was, *now})
        if key.partition("/")[0] in DEPENDS[kind] and was.get(key) != now.get(key)
    )


def _why_stale(
    statement: Statement, reference: Mapping[str, str], done: Mapping[Kind, Statement]
) -> tuple[str, ...]:
    kind, needed = statement.kind, _NEEDS[statement.kind]
    changed = changes(kind, statement.lineage, reference)
    if changed or needed is None:
        return changed
    if needed not in done:
        return (needed,)
    return () if statement.plan == done["lock"].plan else ("plan",)


def _undone(before: Seq[Statement], done: Mapping[Kind, Statement]) -> list[Stale]:
    """Statements that counted until the plan was locked anew."""
    return [
        Stale(n=n, kind=s.kind, changed=("lock",))
        for n, s in enumerate(before, start=1)
        if any(s is other for other in done.values())
    ]


def _latest_lineage(statements: Seq[Statement]) -> Mapping[str, str]:
    return next((s.lineage for s in reversed(statements) if s.lineage), {})


def _openings(statements: Seq[Statement], reference: Mapping[str, str]) -> int:
    """A new plan or another salt does not make prompts unseen; other data does."""
    data = reference.get("data")
    opened = (s for s in statements if s.kind == "confirm" and s.event == "opened")
    return sum(s.lineage.get("data") == data for s in opened)


def _allowed(kind: Kind, done: Mapping[Kind, Statement]) -> bool:
    needed = _NEEDS[kind]
    if needed is not None and needed not in done:
        return False
    if kind == "load" and kind in done:
        return done[kind].body.get("valid") is False
    return kind not in _ONCE or kind not in done
