"""Criteria: what must hold. Each is judged PASS, FAIL, INCONCLUSIVE or INVALID on bounds alone.

Ratios are written so that 1 is "no difference" and a criterion reads like its sentence: an effect
of 1.15 is 15 % better, a margin of 1.05 allows 5 % worse, whichever direction of the metric is the
better one (`Metric.better`).
"""

from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from outpace.evaluate.plan.shape import (
    Alpha,
    AtLeastOne,
    Count,
    Many,
    Name,
    Positive,
    Shape,
    Share,
    Text,
    wrong,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """better: which direction. scale: how differences are measured. per: the unit it exists for."""

    better: Literal["lower", "higher"]
    scale: Literal["ratio", "difference"]
    per: Literal["request", "block"]


METRICS: dict[str, Metric] = {
    "ttft": Metric(better="lower", scale="ratio", per="request"),
    "tpot": Metric(better="lower", scale="ratio", per="request"),
    "e2el": Metric(better="lower", scale="ratio", per="request"),
    "pass_rate": Metric(better="higher", scale="difference", per="request"),
    "failure_rate": Metric(better="lower", scale="difference", per="request"),
    "tokens_per_s": Metric(better="higher", scale="ratio", per="block"),
    "goodput": Metric(better="higher", scale="ratio", per="block"),
    "cost_per_useful_outcome": Metric(better="lower", scale="ratio", per="block"),
    "energy_per_token": Metric(better="lower", scale="ratio", per="block"),
    "peak_memory": Metric(better="lower", scale="ratio", per="block"),
}
Time = Literal["ttft", "tpot", "e2el"]
RatioMetric = Literal[
    "ttft", "tpot", "e2el", "tokens_per_s", "goodput", "cost_per_useful_outcome",
    "energy_per_token", "peak_memory",
]  # fmt: skip
AnyMetric = Literal[
    "ttft", "tpot", "e2el", "pass_rate", "failure_rate", "tokens_per_s", "goodput",
    "cost_per_useful_outcome", "energy_per_token", "peak_memory",
]  # fmt: skip
MarginRatio = Annotated[float, Field(ge=1)]


class Judged(Shape):
    """What all criteria have. critical: its FAIL refutes. primary: the one claim of the plan.
    arm: judged; against: what it is compared with."""

    id: Name
    critical: bool = False
    primary: bool = False
    arm: Name = "candidate"
    against: Name = "baseline"

    @property
    def must_have_data(self) -> bool:
        """Whether silence is a FAIL."""
        return self.critical or self.primary


class ExactLaw(Judged):
    """The law, walked path by path on the real code: no path off by more than tol."""

    type: Literal["exact_law"]
    tol: Annotated[float, Field(gt=0, lt=1e-3)] = 1e-12


class SameText(Judged):
    """Greedy and seeded texts: mismatches, and ties if `max_ties` says so, at most so many."""

    type: Literal["same_text"]
    max_mismatches: Count = 0
    max_ties: Count | None = None
    min_tokens: AtLeastOne = 512


class SameLaw(Judged):
    """Sampled texts: no test at level alpha tells the arms' laws apart, and this sample would
    have shown a total variation of max_tv."""

    type: Literal["same_law"]
    alpha: Alpha = 0.01
    max_tv: Annotated[float, Field(gt=0, le=1)] = 0.1


class Contract(Judged):
    """The endpoint contract checks on the arm. allow: checks that may fail, by name."""

    type: Literal["contract"]
    allow: Many[Text] = ()


class Superiority(Judged):
    """The arm is better by min_effect at least."""

    type: Literal["superiority"]
    metric: RatioMetric
    estimator: Literal["geometric_mean_ratio", "ratio_of_totals"] = "geometric_mean_ratio"
    min_effect: Annotated[float, Field(ge=1)]
    alpha: Alpha = 0.05
    scenario: Name | None = None


class NonInferiority(Judged):
    """The arm is not worse by more than a margin: a ratio, or for rates a difference."""

    type: Literal["non_inferiority"]
    metric: AnyMetric
    margin_ratio: MarginRatio | None = None
    margin_abs: Annotated[float, Field(gt=0, lt=1)] | None = None
    alpha: Alpha = 0.05
    scenario: Name | None = None

    @model_validator(mode="after")
    def _margin(self) -> Self:
        wanted = "margin_ratio" if METRICS[self.metric].scale == "ratio" else "margin_abs"
        given = [k for k in ("margin_ratio", "margin_abs") if getattr(self, k) is not None]
        if given != [wanted]:
            raise wrong(
                f"{self.metric} needs {wanted}; found {' and '.join(given) or 'none'}", key=wanted
            )
        return self


class Exceedance(Judged):
    """Requests over a limit: the quantile's share at most (binomial bound at 1 - alpha).

    not_worse_than: and the share over the limit exceeds that arm's by `margin` at most.
    """

    type: Literal["exceedance"]
    metric: Time
    limit_ms: Positive
    quantile: Annotated[float, Field(gt=0.5, lt=1)] = 0.99
    not_worse_than: Name | None = None
    margin: Share = 0.005
    alpha: Alpha = 0.05
    scenario: Name | None = None


class Subgroups(Judged):
    """In every subgroup the arm is not worse by more than a margin (intersection-union: no
    correction). min_n: prompts a subgroup needs; smaller ones are INCONCLUSIVE, not left out."""

    type: Literal["all_subgroups_non_inferior"]
    metric: Time
    margin_ratio: MarginRatio
    min_n: AtLeastOne = 20
    alpha: Alpha = 0.05


Criterion = Annotated[
    ExactLaw
    | SameText
    | SameLaw
    | Contract
    | Superiority
    | NonInferiority
    | Exceedance
    | Subgroups,
    Field(discriminator="type"),
]
