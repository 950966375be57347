"""Makes most generated bodies fit for an answer: Schemathesis loads this by its path.

Invented model names would end nearly all of them in a 404, and long answers take the time of many
short ones.
"""

from typing import Any

import schemathesis

_MOST_TOKENS = 6


@schemathesis.hook
def map_body(_context: Any, body: Any) -> Any:
    """Bodies without a model, and with short answers; nothing else of them is touched."""
    if not isinstance(body, dict):
        return body
    for name in ("max_tokens", "max_completion_tokens"):
        if isinstance(body.get(name), int):
            body[name] = min(body[name], _MOST_TOKENS)
    return {"max_tokens": _MOST_TOKENS, **{k: v for k, v in body.items() if k != "model"}}
