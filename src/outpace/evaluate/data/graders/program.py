"""The code in an answer, and whether it passes its tests."""

import re

from outpace.evaluate.data.graders.checks import Python
from outpace.evaluate.data.sandbox.run import Isolation, Limits, run

_FENCE = re.compile(r"```[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:```|\Z)", re.DOTALL)
_PYTHON = ("python", "py", "python3", "")


def find_code(text: str) -> str:
    """All of the answer's Python fences, one after another; without any, the whole answer.

    A fence that never ends, as in an answer cut off, ends where the answer does.
    """
    fences = [code for name, code in _FENCE.findall(text) if name.lower() in _PYTHON]
    return "\n".join(fences) if fences else text


def python(
    check: Python, text: str, *, limits: Limits | None = None, isolation: Isolation = "full"
) -> tuple[bool | None, str]:
    """Whether the tests pass; None = this machine has no cell for it."""
    ran = run(find_code(text), check.tests, limits, isolation=isolation)
    if ran.status == "no_cell":
        return None, f"code is not run: this machine cannot wall it in ({ran.reason})"
    return ran.status == "passed", ran.reason
