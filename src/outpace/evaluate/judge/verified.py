"""What `verify` and `test` found, as their statements' bodies keep it (`evaluate.exact` and
`evaluate.study` say the keys). Written by the phases, read here and nowhere else."""

from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from outpace.errors import ConfigError
from outpace.evaluate.ledger import Statement

P = TypeVar("P", bound="Part")
SameOrNot = Literal["identical", "tie", "mismatch", "unchecked"]


class Part(BaseModel):
    """A frozen part of a statement's body; keys that a later version adds are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class LawWalk(Part):
    """The enumeration: every path of the real code against the model's law. worst: the largest
    error; at: the case that has it."""

    worst: Annotated[float, Field(ge=0)]
    paths: Annotated[int, Field(ge=0)]
    cases: int = 0
    at: JsonValue = None


class TextCheck(Part):
    """One prompt's text by an arm against the baseline's.

    at: index of the first difference. margin: how far the baseline preferred its token there.
    noise: the largest margin that numerics explain. control: the baseline against itself.
    """

    arm: str = "candidate"
    prompt: str
    temperature: float = 0.0
    verdict: SameOrNot
    at: int | None = None
    margin: float | None = None
    noise: float | None = None
    n_tokens: Annotated[int, Field(ge=0)]
    control: SameOrNot | None = None
    how: str = ""


class LawCheck(Part):
    """A test of an arm's sampled texts, a `stats.LawTest` on one prompt. p_value None: it could
    not be made."""

    prompt: str = ""
    temperature: float = 1.0
    test: str
    p_value: Annotated[float, Field(ge=0, le=1)] | None
    n: Annotated[int, Field(ge=0)] = 0
    detectable_tv: Annotated[float, Field(ge=0, le=1)] | None = None
    found: str = ""


class ContractCheck(Part):
    """One check of the endpoint contract."""

    name: str
    verdict: Literal["pass", "fail", "unsupported"]
    found: str = ""


class Activity(Part):
    """Whether an arm's counters of guesses moved. None: it has none."""

    expected: bool | None = None
    moved: bool | None = None
    why: str = ""


class ModelCheck(Part):
    """One way of telling whether two arms serve one model."""

    what: str
    same: bool | None
    found: str = ""


class SameModel(Part):
    """Whether arms serve one model, tokenizer and template. None: could not be told."""

    same: bool | None
    checks: tuple[ModelCheck, ...] = ()


class OptionEffect(Part):
    """A speculative option of an arm. live: the counters showed its effect; None = unseen."""

    arm: str
    option: str
    value: JsonValue = None
    live: bool | None
    found: str = ""


class Verified(Part):
    """All of it. limits: what could not be checked, in words."""

    exact_law: LawWalk | None = None
    texts: tuple[TextCheck, ...] = ()
    laws: dict[str, tuple[LawCheck, ...]] = Field(default_factory=dict)
    contract: dict[str, tuple[ContractCheck, ...]] = Field(default_factory=dict)
    activity: dict[str, Activity] = Field(default_factory=dict)
    same_model: SameModel | None = None
    config_effect: tuple[OptionEffect, ...] = ()
    limits: tuple[str, ...] = ()

    @classmethod
    def of(cls, statement: Statement) -> "Verified":
        """Read it from a statement.

        Raises:
            ConfigError: the body is of another shape.
        """
        return _read(cls, statement)


class Recovered(Part):
    """How the control behaved when guesses went wrong, and right again; None = it did not, or it
    could not be seen (`found` says which)."""

    arm: str = "candidate"
    fall_back_s: float | None = None
    return_s: float | None = None
    fall_back_tokens: int | None = None
    return_tokens: int | None = None
    switches: int | None = None
    found: str = ""


class Tested(Part):
    """The body of a `test` statement, as far as it is read."""

    recovery: Recovered | None = None

    @classmethod
    def of(cls, statement: Statement) -> "Tested":
        """Read it from a statement.

        Raises:
            ConfigError: the body is of another shape.
        """
        return _read(cls, statement)


def _read(kind: type[P], statement: Statement) -> P:
    try:
        return kind.model_validate(dict(statement.body))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(
            f"the {statement.kind} statement's {where}: {first['msg']}; "
            f"it was written by another version: run {statement.kind} again"
        ) from None
