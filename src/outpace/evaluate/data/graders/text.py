"""Answers as text: equal to one, holding some, ending in a number."""

import re
import unicodedata
from collections.abc import Sequence as Seq

from outpace.evaluate.data.graders.checks import Contains, Exact, Numeric

Found = tuple[bool, str]
"""Whether it passed, and if not, why."""

_NUMBER = re.compile(r"(?<![\w.,])[-+−]?(?:\d[\d,.'’\u00a0\u202f]*)?\d(?:[eE][-+]?\d+)?")
_GROUPS = re.compile(r"['’\u00a0\u202f]")
_SPACELESS = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_MARKS_IN_WORDS = "'’"


def normal(text: str) -> str:
    """Lower case, no punctuation, single spaces, one form of each character (NFKC).

    Apostrophes go without leaving a gap; signs such as + and % stay.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    marks = (
        "" if c in _MARKS_IN_WORDS else " " if unicodedata.category(c)[0] == "P" and c != "%" else c
        for c in folded
    )
    return " ".join("".join(marks).replace("`", " ").split())


def exact(check: Exact, text: str) -> Found:
    """The whole answer."""
    found = normal(text) if check.normalised else text.strip()
    wanted = [normal(a) if check.normalised else a.strip() for a in check.answers]
    if found in wanted:
        return True, ""
    return False, f"found {short(found)}; wanted {either(wanted)}"


def contains(check: Contains, text: str) -> Found:
    """Parts that must be there, and parts that must not."""
    missing = [part for part in check.all if not holds(text, part, check)]
    if missing:
        return False, f"without {short(missing[0])}"
    if check.any and not any(holds(text, part, check) for part in check.any):
        return False, f"none of {either(check.any)}"
    unwanted = [part for part in check.none if holds(text, part, check)]
    return (False, f"with {short(unwanted[0])}") if unwanted else (True, "")


def holds(text: str, part: str, check: Contains) -> bool:
    """Whole words where they have spaces around them; scripts without spaces are searched."""
    if not check.normalised:
        return part in text
    wanted = normal(part)
    if not wanted or _SPACELESS.search(wanted):
        return wanted.replace(" ", "") in normal(text).replace(" ", "")
    return f" {wanted} " in f" {normal(text)} "


def numeric(check: Numeric, text: str) -> Found:
    """The last number."""
    found = last_number(text)
    if found is None:
        return False, f"no number; wanted {check.answer:g}"
    if abs(found - check.answer) <= check.tolerance:
        return True, ""
    return False, f"found {found:g}; wanted {check.answer:g} within {check.tolerance:g}"


def last_number(text: str) -> float | None:
    """The last number of a text: 1,234.5 and 1.234,5 and 1 234,5 (fixed spaces) and -3e4.

    A lone comma before exactly three digits parts thousands, before others decimals; a lone point
    is always a decimal point.
    """
    found = _NUMBER.findall(text)
    if not found:
        return None
    digits = _GROUPS.sub("", found[-1].replace("−", "-"))
    comma, point = digits.rfind(","), digits.rfind(".")
    if comma >= 0 and point >= 0:
        thousands, decimal = (",", ".") if point > comma else (".", ",")
        digits = digits.replace(thousands, "").replace(decimal, ".")
    elif digits.count(",") == 1 and len(digits) - comma - 1 != 3:
        digits = digits.replace(",", ".")
    elif digits.count(".") > 1:
        digits = digits.replace(".", "")
    else:
        digits = digits.replace(",", "")
    try:
        return float(digits)
    except ValueError:
        return None


def either(wanted: Seq[str]) -> str:
    """The first of what would do."""
    more = len(wanted) - 1
    return short(wanted[0]) + (f" or {more} others" if more else "")


def short(text: str) -> str:
    """A text for a reason."""
    shown = repr(text)
    return shown if len(shown) <= 120 else f"{shown[:80]}...{shown[-35:]}"
