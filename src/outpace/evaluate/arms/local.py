"""A configuration in this process: an engine and a drafter of its own, on weights all share."""

import threading
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace

from outpace.api import Model
from outpace.bench.client import Answer, InProcess, Messages, encode
from outpace.control.auto import AutoControl
from outpace.control.breaker import BreakerConfig
from outpace.control.limits import AutoConfig, Control, FixedControl, Limits, parse_speculation
from outpace.core.sampling import Sampling
from outpace.engine.engine import Engine
from outpace.engine.service import Service
from outpace.errors import RequestError
from outpace.evaluate.arms.arm import (
    ACCEPTED,
    CLOSED,
    DRAFTED,
    DRAFTS,
    GENERATED,
    OPENED,
    PROMPT,
    STAGE_S,
    Asked,
    Usage,
    own_usage,
)
from outpace.evaluate.arms.planted import Gullible, distorted, slowed
from outpace.evaluate.arms.scripted import Script, ScriptedDrafter
from outpace.evaluate.plan.arms import InProcessArm, Planted
from outpace.events import ControlSwitched, Event, RoundsDone

# No acceptance is enough to keep a breaker closed, or to close it: it opens with the first
# evidence, and what follows is what a real collapse leaves, probes included.
_HELD_OPEN = BreakerConfig(open_below=1e9, close_above=1e9)
_ABSTAIN = Limits(max_nodes=0, max_depth=0, reason="held at no guesses by the plan")


class LocalArm:
    """An in-process arm; its engine is idle except during its own turns."""

    local = goes_on = True

    def __init__(self, name: str, arm: InProcessArm, model: Model) -> None:
        self.name = name
        self.arm, self.model = arm, model
        self.facts: Mapping[str, str] = {}
        self.scripts: dict[Script, Seq[int]] = {}
        names = (GENERATED, PROMPT, DRAFTS, DRAFTED, ACCEPTED, *STAGE_S, OPENED, CLOSED)
        self._totals = dict.fromkeys(names, 0.0)
        self._lock = threading.Lock()
        self._service: Service | None = None
        self.fresh()

    @property
    def engine(self) -> Engine:
        """What decodes for it now."""
        assert self._service is not None  # noqa: S101 - made by `fresh`, which ran at birth
        return self._service.engine

    def ask(self, messages: Messages, sampling: Sampling, *, want_text: bool = False) -> Answer:
        assert self._service is not None  # noqa: S101 - as above
        planted = self.arm.test_only
        asked = self.sampling(distorted(sampling, planted))
        answer = InProcess(self.model, self._service).ask(messages, asked, want_text=want_text)
        self._count(answer)
        return slowed(answer, planted)

    def sampling(self, sampling: Sampling) -> Sampling:
        """A request's sampling, with the arm's acceptance rule."""
        return sampling if self.arm.rule == "auto" else replace(sampling, rule=self.arm.rule)

    def counters(self) -> Mapping[str, float]:
        with self._lock:
            return dict(self._totals)

    def usage(self) -> Usage:
        return own_usage()

    def fresh(self) -> None:
        self.close()
        self._service = Service(engine_of(self.arm, self.model, self.scripts))
        self._service.engine.listeners.append(self._hear)

    def settle(self, coming: Seq[Asked]) -> None:
        if _planted(self.arm).synthetic is not None:
            self._write_scripts(coming)
        getattr(self.model.runtime, "forget_beginnings", lambda: None)()

    def close(self) -> None:
        """Stop its engine's thread; the model stays open."""
        if self._service is not None:
            self._service.shutdown(0.0)

    def _count(self, answer: Answer) -> None:
        said = answer.speculation
        with self._lock:
            self._totals[GENERATED] += answer.completion_tokens
            self._totals[PROMPT] += answer.prompt_tokens
            if said is not None:
                self._totals[DRAFTS] += sum(n for depth, _, n in said.lengths if depth)
                self._totals[DRAFTED] += said.drafted
                self._totals[ACCEPTED] += said.kept

    def _hear(self, event: Event) -> None:
        """Where the time of rounds goes, and what the control did; on the engine's thread."""
        with self._lock:
            if isinstance(event, RoundsDone) and event.rounds:
                first = event.rounds[0].seconds  # draft and score are the whole pass's
                self._totals["draft_s"] += first.draft
                self._totals["score_s"] += first.score
                for done in event.rounds:
                    self._totals["accept_s"] += done.seconds.accept
                    self._totals["resample_s"] += done.seconds.resample
                    self._totals["repeat_s"] += done.seconds.repeat
            elif isinstance(event, ControlSwitched):
                self._totals[OPENED if event.state == "open" else CLOSED] += 1

    def _write_scripts(self, coming: Seq[Asked]) -> None:
        """Decode what is not known yet without guesses, on an engine that is thrown away."""
        plain: Engine | None = None
        for asked in coming:
            prompt = tuple(encode(self.model, asked.messages))
            if prompt not in self.scripts or not asked.sampling.greedy:
                plain = plain or self.model.engine_with("none")
                try:
                    sequence = plain.add(prompt, asked.sampling, seed=0)
                except RequestError:
                    continue  # the arm itself will be told
                while not plain.idle:
                    plain.step()
                self.scripts[prompt] = tuple(sequence.output)


def engine_of(arm: InProcessArm, model: Model, scripts: Mapping[Script, Seq[int]]) -> Engine:
    """A new engine that behaves as the arm says.

    Raises:
        ConfigError: no such drafter, or not for this model.
    """
    planted = _planted(arm)
    # Controls of "none" never guess, so a planted drafter takes the place of another.
    drafter = "lookup" if planted.synthetic and arm.drafter == "none" else arm.drafter
    made = model.engine_with(drafter, _ABSTAIN if arm.force == "abstain" else _limits(arm))
    guesser = made.drafter
    if planted.synthetic is not None:
        vocab_size = model.runtime.traits.vocab_size
        guesser = ScriptedDrafter(scripts, planted.synthetic, vocab_size=vocab_size)
    if guesser is made.drafter and arm.force != "breaker_open" and not planted.accept_all:
        return made
    return Engine(
        Gullible(made.runtime) if planted.accept_all else made.runtime,
        guesser,
        control=_held_open(made.control, guesser.name)
        if arm.force == "breaker_open"
        else made.control,
    )


def _limits(arm: InProcessArm) -> Limits | None:
    return parse_speculation(arm.setting)


def _held_open(control: Control, drafter: str) -> Control:
    """The control after a collapse that does not end; one without a breaker abstains."""
    if isinstance(control, AutoControl):
        return AutoControl(control.costs.table, AutoConfig(breaker=_HELD_OPEN), drafter=drafter)
    return FixedControl(_ABSTAIN)


def _planted(arm: InProcessArm) -> Planted:
    return arm.test_only or Planted()
