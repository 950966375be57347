"""Grading answers of items, by the item's own check or by a function of the caller's."""

from collections.abc import Callable
from dataclasses import replace

from outpace.errors import ConfigError
from outpace.evaluate.data.graders.grade import grade_text
from outpace.evaluate.data.items import Item, Items, Own
from outpace.evaluate.data.sandbox.run import Isolation, Limits
from outpace.evaluate.measurement import Grade


def grade(
    item: Item, text: str, *, limits: Limits | None = None, isolation: Isolation = "full"
) -> Grade | None:
    """What the item's check says of the answer to its last turn; None = it has no check.

    limits, isolation: of code that is run, see `sandbox.run`. Grade time is not answer time: call
    it after the measurement, never within.
    """
    if item.own is not None:
        return _own(item.own, item, text)
    if item.check is None:
        return None
    return grade_text(item.check, text, limits=limits, isolation=isolation)


def graded_by(
    items: Items, function: Callable[[Item, str], bool | float | Grade], *, name: str = ""
) -> Items:
    """Items without a check are graded by a function: a truth, a score from 0 to 1 (1 passes), or
    a whole Grade. name: of the check in records; the function's own by default."""
    own = Own(name=name or getattr(function, "__qualname__", type(function).__name__),
              function=function)  # fmt: skip

    def with_own(part: tuple[Item, ...]) -> tuple[Item, ...]:
        return tuple(replace(i, own=own) if i.check is None else i for i in part)

    return replace(
        items,
        dev=with_own(items.dev),
        test=with_own(items.test),
        confirm=with_own(items.confirm),
    )


def _own(own: Own, item: Item, text: str) -> Grade:
    """A function that raises has not judged; one that says nonsense is an error of its author."""
    try:
        said = own.function(item, text)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        return Grade(check=own.name, passed=None, reason=reason[:300])
    if isinstance(said, Grade):
        return said
    if not isinstance(said, int | float) or not 0 <= said <= 1:
        raise ConfigError(
            f"check {own.name} said {said!r} of {item.id}; allowed: true, false, a score from 0 "
            "to 1, or a Grade"
        )
    return Grade(check=own.name, passed=float(said) == 1.0, score=float(said))
