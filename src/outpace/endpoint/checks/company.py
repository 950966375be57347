"""Requests that run together do not touch each other's texts."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from outpace.endpoint.client import PROMPT, Endpoint
from outpace.endpoint.verdict import Check, expect, same

_MANY = 8


def _requests() -> list[dict[str, Any]]:
    """Different prompts, laws and lengths: nothing they share but the server."""
    found: list[dict[str, Any]] = []
    for i in range(_MANY):
        law: dict[str, Any] = {"temperature": 0} if i % 3 == 0 else {"temperature": 0.9, "seed": i}
        more = ({}, {"frequency_penalty": 0.5}, {"top_p": 0.9}, {"presence_penalty": 1.0})[i % 4]
        found.append({"prompt": PROMPT[7 * i :], "max_tokens": 16 + 3 * i, **law, **more})
    return found


def together(e: Endpoint) -> str:
    alone = [e.complete(**fields).text for fields in _requests()]
    with ThreadPoolExecutor(_MANY) as pool:
        crowd = list(pool.map(lambda fields: e.complete(**fields).text, _requests()))
    for i, (a, b) in enumerate(zip(alone, crowd, strict=True)):
        same(a, b, f"request {i}, alone and beside {_MANY - 1} others")
    return f"{_MANY} texts, each the same alone and beside the others"


def several_prompts(e: Endpoint) -> str:
    prompts = [PROMPT, PROMPT[4:], "something else entirely"]
    found = e.completions(prompts, max_tokens=16)
    same(len(found), len(prompts), "numbers of choices and prompts")
    for i, (prompt, answer) in enumerate(zip(prompts, found, strict=True)):
        same(
            e.complete(prompt, max_tokens=16).text, answer.text, f"prompt {i}, alone and in a list"
        )
    return "three prompts in one request: the texts of three requests"


def quiet_afterwards(e: Endpoint) -> str:
    """Idle requests must not consume anybody's randomness."""
    fields: dict[str, Any] = {"max_tokens": 24, "temperature": 1.0, "seed": 77}
    before = e.complete(**fields).text
    for i in range(5):
        e.complete(PROMPT[i:], max_tokens=8, temperature=1.0)
    same(before, e.complete(**fields).text, "a seeded text before and after other requests")
    expect(bool(before), "an empty text")
    return "a seeded text is the same after unseeded requests"


CHECKS = [
    Check(name="in-company", run=together,
          promise="a text is the same alone and beside others"),
    Check(name="several-prompts", run=several_prompts,
          promise="prompts of one request are answered as if alone"),
    Check(name="own-randomness", run=quiet_afterwards,
          promise="other requests use up nobody's randomness"),
]  # fmt: skip
