"""Load: how requests arrive when the arms are measured under traffic, and when that counts."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from outpace.evaluate.plan.shape import (
    AtLeastOne,
    Many,
    Name,
    Positive,
    Shape,
    Share,
    Text,
    Unit,
    wrong,
)


class Synchronous(Shape):
    """One request at a time."""

    name: Name
    profile: Literal["synchronous"]
    requests: AtLeastOne | None = None


class Concurrent(Shape):
    """So many streams, each asking again as soon as it is answered."""

    name: Name
    profile: Literal["concurrent"]
    streams: AtLeastOne
    requests: AtLeastOne | None = None


class Timed(Shape):
    """Arrivals that do not wait for answers: by chance (`poisson`) or evenly (`constant`)."""

    name: Name
    profile: Literal["poisson", "constant"]
    rate_per_s: Positive
    min_requests: AtLeastOne = 200


class Replay(Shape):
    """Arrivals of a trace. time_unit: what its TIMESTAMP counts in; never guessed.
    time_scale: seconds of the trace per second of the replay."""

    name: Name
    profile: Literal["trace"]
    trace: Text
    time_unit: Unit
    time_scale: Positive = 1.0
    max_requests: AtLeastOne | None = None


Scenario = Annotated[Synchronous | Concurrent | Timed | Replay, Field(discriminator="profile")]


class Objectives(Shape):
    """What a request must meet to be good, in *milliseconds*."""

    ttft: Positive | None = None
    tpot: Positive | None = None
    e2el: Positive | None = None


class Validity(Shape):
    """When a load run counts at all: the rate asked and achieved, failures, answer lengths."""

    rate_tolerance: Share = 0.05
    max_failure_rate: Share = 0.01
    output_length_tolerance: Share = 0.1


class Load(Shape):
    """Scenarios, run one after another against every arm."""

    scenarios: Annotated[Many[Scenario], Field(min_length=1)]
    slo_ms: Objectives = Objectives()
    validity: Validity = Validity()

    @model_validator(mode="after")
    def _names(self) -> Self:
        names = [scenario.name for scenario in self.scenarios]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise wrong(
                f"scenario {twice[0]!r} occurs twice; names tell records apart", key="scenarios"
            )
        return self


def n_requests(scenario: Scenario) -> int | None:
    """Requests of one arm that the scenario itself fixes; None = the data or the trace decides."""
    match scenario:
        case Timed():
            return scenario.min_requests
        case Replay():
            return scenario.max_requests
        case _:
            return scenario.requests
