"""What all parts of a plan share: they are frozen, strict, and know no key but their own.

Strict: "2" is no number and 1 no text, since YAML makes such slips easy. Lists become tuples.
"""

from difflib import get_close_matches
from typing import Annotated, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    Strict,
    StringConstraints,
    model_validator,
)
from pydantic_core import PydanticCustomError

T = TypeVar("T")

Many = Annotated[tuple[T, ...], Strict(strict=False)]
"""A list in YAML; what it holds is checked strictly all the same."""
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64)]
"""Of an arm, a criterion, a scenario: it appears in records and file names."""
Share = Annotated[float, Field(ge=0, le=1)]
Alpha = Annotated[float, Field(gt=0, lt=0.5)]
"""The chance of a wrong PASS that a criterion accepts; its bounds are one-sided at 1 - alpha."""
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=0)]
AtLeastOne = Annotated[int, Field(ge=1)]
Document = dict[str, JsonValue]


class Shape(BaseModel):
    """A part of a plan."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, protected_namespaces=()
    )

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, found: object) -> object:
        """Unknown keys hide the ones they were meant to be, so they are named first."""
        if isinstance(found, dict):
            known = list(cls.model_fields)
            for key in found:
                if key not in known:
                    raise unknown_key(str(key), known)
        return found


def unknown_key(key: str, known: list[str]) -> PydanticCustomError:
    """The error of a key that a part does not have; `read.py` adds where it stands."""
    hint = nearest(key, known)
    message = f"there is no such key{hint or '; allowed: ' + ', '.join(known)}"
    return PydanticCustomError("unknown_key", "{message}", {"key": key, "message": message})


def wrong(message: str, *, key: str = "") -> PydanticCustomError:
    """The error of values that exclude each other. key: where in the part, if at one."""
    return PydanticCustomError("wrong", "{message}", {"key": key, "message": message})


def nearest(word: str, known: list[str] | tuple[str, ...]) -> str:
    """`; did you mean X?`, or nothing where nothing is near."""
    near = get_close_matches(word, known, n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


Unit = Literal["datetime", "s", "ms", "us", "ns"]
