"""A check and an answer make a grade."""

from outpace.evaluate.data.graders import text as texts
from outpace.evaluate.data.graders.checks import (
    Check,
    Contains,
    Exact,
    Json,
    Numeric,
    Python,
    Regex,
)
from outpace.evaluate.data.graders.document import find_document, same
from outpace.evaluate.data.graders.patterns import fits, regex
from outpace.evaluate.data.graders.program import python
from outpace.evaluate.data.sandbox.run import Isolation, Limits
from outpace.evaluate.measurement import Grade

MOST_CHARACTERS = 1 << 20


def grade_text(
    check: Check, text: str, *, limits: Limits | None = None, isolation: Isolation = "full"
) -> Grade:
    """What a check says of an answer.

    limits, isolation: of code that is run, see `sandbox.run`.
    """
    passed: bool | None
    if len(text) > MOST_CHARACTERS:
        passed, reason = False, f"{len(text)} characters; an answer has at most {MOST_CHARACTERS}"
    elif isinstance(check, Python):
        passed, reason = python(check, text, limits=limits, isolation=isolation)
    else:
        passed, reason = _read(check, text)
    score = None if passed is None else float(passed)
    return Grade(check=check.type, passed=passed, score=score, reason=reason)


def _read(check: Exact | Contains | Numeric | Regex | Json, text: str) -> texts.Found:
    match check:
        case Exact():
            return texts.exact(check, text)
        case Contains():
            return texts.contains(check, text)
        case Numeric():
            return texts.numeric(check, text)
        case Regex():
            return regex(check, text)
        case Json():
            return _json(check, text)


def _json(check: Json, text: str) -> texts.Found:
    try:
        document = find_document(text)
    except ValueError as error:
        return False, str(error)
    fitting, reason = fits(check.fits, document)
    if fitting and "equals" in check.model_fields_set and not same(document, check.equals):
        return False, f"found {texts.short(str(document))}; wanted {texts.short(str(check.equals))}"
    return fitting, reason
