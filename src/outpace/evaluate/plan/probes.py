"""Probes: the failure mode forced, recovery timed, and assumptions changed one at a time."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from outpace.evaluate.plan.data import Factor
from outpace.evaluate.plan.shape import AtLeastOne, Many, Name, Positive, Shape, Share, Text, wrong

Case = Literal["domain_shift", "language_switch", "high_entropy", "adversarial"]
FAILURE_MODE = "failure_mode"
"""The id under which the failure mode is judged; a plan may name it in falsified_by."""


class Recovery(Shape):
    """How soon the control must fall back when guesses go wrong, and return when they are right
    again; None = reported, not judged."""

    max_fall_back_s: Positive | None = None
    max_return_s: Positive | None = None


class FailureMode(Shape):
    """Speculation collapses when drafts disagree. forced_acceptance: shares of guesses kept on
    purpose. max_slowdown: most times the baseline's time, at every share and case, control on."""

    forced_acceptance: Many[Share] = (0.0, 0.25, 0.5, 0.75, 1.0)
    cases: Many[Case] = ()
    max_slowdown: Annotated[float, Field(ge=1)] = 1.05
    recovery: Recovery = Recovery()
    critical: bool = False

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.forced_acceptance and not self.cases:
            raise wrong("neither forced_acceptance nor cases: nothing to measure")
        return self


class DrafterRemoved(Shape):
    """The arm without its drafter: what the drafter itself is worth."""

    change: Literal["drafter_removed"]
    arm: Name = "candidate"


class WrongDrafter(Shape):
    """The arm with another drafter, by default one that is always wrong."""

    change: Literal["wrong_drafter"]
    arm: Name = "candidate"
    drafter: Text = "synthetic:wrong"


class ForcedAbstention(Shape):
    """The arm whose control is held at no guesses."""

    change: Literal["forced_abstention"]
    arm: Name = "candidate"


class Threads(Shape):
    """All arms with another number of threads."""

    change: Literal["threads"]
    threads: AtLeastOne


class OtherData(Shape):
    """All arms on another part of the data, or on another file."""

    change: Literal["data"]
    filter: dict[Factor, Many[Text]] = Field(default_factory=dict)
    source: Text | None = None

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.filter and self.source is None:
            raise wrong("neither filter nor source: nothing would change")
        return self


class LongerContext(Shape):
    """All arms with so many tokens of text before every prompt."""

    change: Literal["longer_context"]
    context_tokens: AtLeastOne


WhatIf = Annotated[
    DrafterRemoved | WrongDrafter | ForcedAbstention | Threads | OtherData | LongerContext,
    Field(discriminator="change"),
]
