"""Load: every scenario against every arm, one after the other; and whether it counts.

A scenario that was cut off is run again whole: what arrives when is what it is about.
"""

from collections.abc import Callable
from dataclasses import replace
from statistics import mean

from pydantic import JsonValue

from outpace.bench.arrivals import Closed
from outpace.bench.record import Block, BlockId, request_of
from outpace.evaluate.arms.arm import GENERATED, OpenArm, moved, used
from outpace.evaluate.measure.blocks import Files
from outpace.evaluate.measure.schedule import Ask, request
from outpace.evaluate.measure.traffic import Due, Sent, load_of, requests_of, send
from outpace.evaluate.measurement import Measurement, Window, to_line
from outpace.evaluate.plan.load import Load, Scenario, Validity
from outpace.evaluate.steps.session import Session

Told = Callable[[str], None]
Facts = dict[str, JsonValue]


def load(session: Session) -> Facts:
    """Run what is not there yet, state it, and return the statement's body."""
    session.require("load")
    plan = session.plan.load
    if plan is None:
        return {}
    asked = {s.name: _requests(session, s) for s in plan.scenarios}
    total = sum(len(dues) for dues, _ in asked.values()) * len(session.arms)
    session.begin("load", {"scenarios": ", ".join(asked)})
    with session.shell.watch("load", total) as tell, session.files() as files:
        for scenario in plan.scenarios:
            dues, streams = asked[scenario.name]
            done = {
                w.block.block.arm
                for w in files.before.windows
                if w.phase == "load" and w.block.block.load == scenario.name
            }
            for name, arm in session.arms.items():
                if name in done:
                    tell(len(dues), "measured before")
                    continue
                run = _Run(session, files, scenario, name)
                run.warm_up(arm)
                window = run.measure(arm, dues, streams, lambda label: tell(1, label))
                files.records.append(to_line(window))
    body = _body(session, plan)
    session.note("load", body)
    return body


def _requests(session: Session, scenario: Scenario) -> tuple[list[Due], int]:
    """What a scenario sends, and over how many streams."""
    plan, items = session.plan, session.items.part("test")
    asks = [
        Ask(question=replace(item, later=()), temperature=temperature, place=place)
        for place, item in enumerate(items)
        for temperature in item.temperatures
    ]
    pairs = [(ask, request(ask, plan.sampling, seed=plan.design.seed)) for ask in asks]
    lengths = [item.n_prompt_tokens for item in items for _ in item.temperatures]
    made = load_of(scenario, seed=plan.design.seed, base=lambda p: session.study.base / p)
    streams = made.streams if isinstance(made, Closed) else 0
    return requests_of(scenario, made, pairs, lengths), streams


class _Run:
    """One scenario against one arm."""

    def __init__(self, session: Session, files: Files, scenario: Scenario, arm: str) -> None:
        self._session, self._files, self._scenario = session, files, scenario
        self._block = BlockId(load=scenario.name, repeat=0, arm=arm)

    def warm_up(self, arm: OpenArm) -> None:
        """A few prompts of dev, and a clean start."""
        plan = self._session.plan
        for place, item in enumerate(self._session.warm()):
            ask = Ask(question=item, temperature=item.temperatures[0], place=place)
            arm.ask(item.messages, request(ask, plan.sampling, seed=plan.design.seed))
        arm.fresh()
        arm.settle(())

    def measure(self, arm: OpenArm, dues: list[Due], streams: int, tell: Told) -> Window:
        """Send it all; every answer is written as it comes."""
        own: list[int] = []
        began: list[float] = []
        waiting: list[Sent] = []

        def keep(sent: Sent) -> None:
            own.append(sent.answer.completion_tokens)
            waiting.append(sent)
            tell(f"{self._block.arm} {self._scenario.name}")

        counted, before = arm.counters(), arm.usage()
        began_s, wall_s = send(arm, dues, streams=streams, keep=keep)
        began.append(began_s)
        took = used(before, arm.usage())
        counters = moved(counted, arm.counters())
        for sent in waiting:
            self._files.records.append(to_line(self._measurement(sent, began_s)))
        foreign = int(counters[GENERATED] - sum(own)) if GENERATED in counters else None
        strangers = foreign is not None and foreign > 0
        return Window(
            plan=self._session.plan.identity, phase="load",
            block=Block(
                block=self._block, attempt=self._files.attempt, wall_s=wall_s, full_s=0.0,
                full_tokens=0, requests=len(own),
            ),
            cpu_s=took.cpu_s, gpu_s=took.gpu_s, energy_j=took.energy_j,
            peak_bytes=took.peak_bytes, counters=counters, own_tokens=sum(own),
            foreign_tokens=foreign, valid=not strangers,
            reasons=(f"{foreign} tokens were generated for others meanwhile",) if strangers else (),
        )  # fmt: skip

    def _measurement(self, sent: Sent, began_s: float) -> Measurement:
        ask, answer = sent.due.ask, sent.answer
        graded = (
            answer.ok and sent.due.sampling.max_tokens == self._session.plan.sampling.max_tokens
        )
        return Measurement(
            plan=self._session.plan.identity, phase="load", order=sent.order,
            request=request_of(
                answer, self._block, attempt=self._files.attempt,
                place=(ask.question.id, ask.question.category, sent.order), sched_s=sent.due_s,
                began_s=began_s,
            ),
            temperature=ask.temperature, seed=sent.due.sampling.seed,
            subgroups=ask.question.at(ask.temperature), counted_by=answer.counted_by,
            text=answer.text, tokens=answer.tokens, logprobs=answer.logprobs,
            reported=answer.reported,
            grade=self._session.grades(ask.question.id, answer.text) if graded else None,
        )  # fmt: skip


def _body(session: Session, plan: Load) -> Facts:
    """What was asked and achieved, per scenario and arm."""
    found: Facts = {}
    whole = True
    measured = session.study.measurements()
    for scenario in plan.scenarios:
        arms: Facts = {}
        for name in session.arms:
            mine = [m for m in measured.of("load", arm=name)
                    if m.request.block.load == scenario.name]  # fmt: skip
            last = max((m.request.attempt for m in mine), default=0)
            arms[name] = facts = _achieved(
                [m for m in mine if m.request.attempt == last],
                plan.validity,
                timed=_timed(scenario),
            )
            whole = whole and facts["valid"] is True
        found[scenario.name] = arms
    return {"valid": whole, "scenarios": found}


def _timed(scenario: Scenario) -> bool:
    return scenario.profile in ("poisson", "constant", "trace")


def _achieved(mine: list[Measurement], rules: Validity, *, timed: bool) -> Facts:
    requests = [m.request for m in mine]
    due = sorted(r.sched_s for r in requests)
    sent = sorted(r.sent_s for r in requests)
    failed = sum(not r.ok for r in requests)
    reasons: list[JsonValue] = []
    asked_per_s = _rate(due)
    achieved_per_s = _rate(sent)
    if timed and asked_per_s and achieved_per_s:
        off = abs(achieved_per_s / asked_per_s - 1)
        if off > rules.rate_tolerance:
            reasons.append(f"sent {achieved_per_s:.3g} per s where {asked_per_s:.3g} were due")
    if requests and failed / len(requests) > rules.max_failure_rate:
        reasons.append(f"{failed} of {len(requests)} failed")
    return {
        "asked_per_s": asked_per_s if timed else None,
        "achieved_per_s": achieved_per_s, "failed": failed, "requests": len(requests),
        "mean_tokens": mean(r.completion_tokens for r in requests) if requests else None,
        "valid": not reasons, "reasons": reasons,
    }  # fmt: skip


def _rate(times: list[float]) -> float | None:
    span = times[-1] - times[0] if len(times) > 1 else 0.0
    return (len(times) - 1) / span if span > 0 else None
