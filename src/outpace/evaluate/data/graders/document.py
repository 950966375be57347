"""The JSON document in an answer, and whether two documents are one value."""

import json
import re

_FENCE = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)
_OPENING = re.compile(r"[\[{]")


def find_document(text: str) -> object:
    """The document: all of the answer, else its last fence that is one, else the first it has.

    Raises ValueError where there is none. NaN and infinities are no JSON.
    """
    for part in (text, *reversed(_FENCE.findall(text))):
        try:
            return _loads(part.strip())
        except ValueError:
            continue
    decoder = json.JSONDecoder(parse_constant=_refuse)
    for opening in _OPENING.finditer(text):
        try:
            document: object = decoder.raw_decode(text, opening.start())[0]
        except ValueError:
            continue
        except RecursionError:
            break
        return document
    raise ValueError("no JSON document in the answer")


def _loads(text: str) -> object:
    try:
        document: object = json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deep") from None
    return document


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is no JSON")


def same(a: object, b: object) -> bool:
    """Equal as JSON: 1 is 1.0 and not true, and keys have no order."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    return a == b
