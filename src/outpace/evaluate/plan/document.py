"""The plan itself, and its identity.

The identity is over what the plan *means*: defaults filled in, comments and order of keys gone.
Two files that mean the same are one plan; one changed number makes another.
"""

import hashlib
import json
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from outpace.evaluate.plan.arms import Arm, InProcessArm, ServeArm, Target
from outpace.evaluate.plan.criteria import Criterion
from outpace.evaluate.plan.data import Data, Design, Sampling
from outpace.evaluate.plan.load import Load, Scenario
from outpace.evaluate.plan.probes import FAILURE_MODE, FailureMode, WhatIf
from outpace.evaluate.plan.shape import Many, Name, Shape, Text, wrong

BASELINE, CANDIDATE, FALLBACK = "baseline", "candidate", "fallback"


class Metadata(Shape):
    """name: of the plan, in reports. owner: who answers for the decision."""

    name: Name
    owner: Text
    description: str = ""


class Decision(Shape):
    """What is to be decided. falsified_by: ids of criteria whose FAIL would refute it."""

    statement: Text
    population: Text
    consequence_if_wrong: Text
    falsified_by: Many[Name] = ()


class Price(Shape):
    """What an hour costs, for cost per useful outcome; by default costs are core-hours."""

    per_core_hour: Annotated[float, Field(ge=0)] = 1.0
    per_gpu_hour: Annotated[float, Field(ge=0)] = 0.0
    currency: Text = "core-hours"


class Plan(Shape):
    """A question, the arms, the data and what would refute the answer."""

    apiVersion: Literal["outpace/v1"]
    kind: Literal["EvaluationPlan"]
    metadata: Metadata
    decision: Decision
    target: Target | None = None
    arms: dict[Name, Arm]
    data: Data
    sampling: Sampling = Sampling()
    design: Design = Design()
    load: Load | None = None
    criteria: Annotated[Many[Criterion], Field(min_length=1)]
    failure_mode: FailureMode | None = None
    what_if: Many[WhatIf] = ()
    price: Price = Price()

    @model_validator(mode="after")
    def _whole(self) -> Self:
        missing = [name for name in (BASELINE, CANDIDATE) if name not in self.arms]
        if missing:
            raise wrong(f"no arm {missing[0]}; found {', '.join(self.arms) or 'none'}", key="arms")
        homeless = [name for name, arm in self.arms.items() if self.target is None and _open(arm)]
        if homeless:
            raise wrong(
                f"arm {homeless[0]!r} needs a model; write target: {{model: NAME}}", key="target"
            )
        ids = [criterion.id for criterion in self.criteria]
        twice = [name for name in ids if ids.count(name) > 1]
        if twice:
            raise wrong(f"id {twice[0]!r} occurs twice; ids name outcomes", key="criteria")
        if FAILURE_MODE in ids:
            raise wrong(f"id {FAILURE_MODE!r} is that of the failure_mode section", key="criteria")
        return self

    @property
    def identity(self) -> str:
        """sha256 of the canonical JSON, in hexadecimal."""
        return hashlib.sha256(canonical(self.document()).encode()).hexdigest()

    def document(self) -> dict[str, object]:
        """The whole plan, defaults included, ready for JSON."""
        return self.model_dump(mode="json")

    @property
    def criterion_ids(self) -> tuple[str, ...]:
        """Everything that will be judged, the failure mode included if it is probed."""
        ids = tuple(criterion.id for criterion in self.criteria)
        return (*ids, FAILURE_MODE) if self.failure_mode is not None else ids

    def scenario(self, name: str) -> Scenario | None:
        """A load scenario by name."""
        found = self.load.scenarios if self.load is not None else ()
        return next((scenario for scenario in found if scenario.name == name), None)


def canonical(document: object) -> str:
    """JSON with one spelling: sorted keys, no spaces, plain UTF-8."""
    return json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def _open(arm: Arm) -> bool:
    """Whether an arm takes its model from the plan's target."""
    if isinstance(arm, ServeArm):
        return arm.serve.model is None and arm.serve.engine != "command"
    return isinstance(arm, InProcessArm)
