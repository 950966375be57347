"""Runs the code, then the tests, in one module, and says how they ended. Nothing is imported here
but the standard library: the file's text is run by a bare interpreter inside the cell.

Reads from descriptor 3 a length, a line end, a JSON document with `code` and `tests`, and after it
a token that is only fetched once the tests have passed: code that ends the process early, with
whatever exit code, has not passed. Writes the verdict to descriptor 4.
"""

import json
import os
import sys
import types

QUESTION, VERDICT = 3, 4
_SHOWN = 300


def read(n: int) -> bytes:
    """Exactly so many bytes of the question."""
    data = b""
    while len(data) < n:
        part = os.read(QUESTION, n - len(data))
        if not part:
            raise EOFError("the question ended early")
        data += part
    return data


def read_length() -> int:
    """The line before the document."""
    digits = b""
    while not digits.endswith(b"\n"):
        digits += read(1)
    return int(digits)


def attempt(question: dict[str, str]) -> dict[str, object]:
    """Code first, then tests; the first exception ends it."""
    module = types.ModuleType("answer")
    sys.modules["answer"] = module
    for part in ("code", "tests"):
        try:
            exec(compile(question[part], f"{part}.py", "exec"), module.__dict__)  # noqa: S102
        except BaseException as error:
            return {"failed": part, "error": shown(error), "line": line(error, f"{part}.py")}
    return {"token": read(32).decode()}


def shown(error: BaseException) -> str:
    """The error in a few words; its own text may raise too."""
    try:
        text = str(error)
    except BaseException:
        text = ""
    return f"{type(error).__name__}: {text}"[:_SHOWN].rstrip(": ")


def line(error: BaseException, name: str) -> int | None:
    """The last line of the file that the error passed through."""
    if isinstance(error, SyntaxError):
        return error.lineno
    found, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == name:
            found = trace.tb_lineno
        trace = trace.tb_next
    return found


if __name__ == "__main__":
    document = json.loads(read(read_length()))
    os.write(VERDICT, json.dumps(attempt(document)).encode())
    os._exit(0)
