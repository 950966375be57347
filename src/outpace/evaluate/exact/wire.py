"""Texts of endpoints against the baseline's: what can be told depends on what servers give.

With token ids a difference has a place. With log-probabilities it has a margin, and the noise is
measured: the shared text passes through the baseline once more, as a prompt (teacher forcing),
and twice the largest change of a log-probability is what other sizes of passes explain.
Without either, texts that differ are counted as unchecked, and that is said.
"""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any

import httpx

from outpace.bench.client import Answer
from outpace.core.sampling import Sampling
from outpace.evaluate.arms.remote import RemoteArm
from outpace.evaluate.exact.kept import Kept
from outpace.evaluate.exact.texts import Tick
from outpace.evaluate.exactness import first_difference
from outpace.evaluate.judge.verified import SameOrNot, TextCheck
from outpace.evaluate.measure.schedule import Question

_TOP = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    verdict: SameOrNot
    at: int | None = None
    margin: float | None = None
    noise: float | None = None
    why: str = ""


def compare(
    base: RemoteArm, others: Seq[RemoteArm], questions: Seq[Question], *, n_tokens: int,
    kept: Kept, tick: Tick,
) -> list[TextCheck]:  # fmt: skip
    """Greedy texts of every arm on every prompt."""
    found: list[TextCheck] = []
    goes_on = all(arm.goes_on for arm in (base, *others))
    # Engines that can be told to go on also tell log-probabilities.
    sampling = Sampling(
        temperature=0, max_tokens=n_tokens, ignore_eos=goes_on, logprobs=1 if goes_on else None
    )
    for question in questions:
        if 0.0 not in question.temperatures:
            continue
        known = [kept.text(arm.name, question.id, 0.0) for arm in others]
        if all(known):
            tick(len(others), "same text: compared before")
            found += [check for check in known if check is not None]
            continue
        plain, again = (base.ask(question.messages, sampling) for _ in range(2))
        control = _judged(base, question, plain, again).verdict
        for arm in others:
            verdict = _judged(base, question, plain, arm.ask(question.messages, sampling))
            tick(1, f"same text: {arm.name}")
            found.append(
                kept.keep(
                    TextCheck(
                        arm=arm.name, prompt=question.id, temperature=0.0,
                        verdict=verdict.verdict, at=verdict.at, margin=verdict.margin,
                        noise=verdict.noise, n_tokens=plain.completion_tokens, control=control,
                        how=verdict.why or ("texts" if plain.tokens is None else "token ids"),
                    )
                )
            )  # fmt: skip
    return found


def _judged(base: RemoteArm, question: Question, plain: Answer, other: Answer) -> _Found:
    for answer in (plain, other):
        if not answer.ok:
            return _Found(verdict="unchecked", why=f"no answer: {answer.error}")
    if plain.tokens is None or other.tokens is None:
        if plain.text == other.text:
            return _Found(verdict="identical")
        return _Found(
            verdict="unchecked", why="the texts differ, and without token ids nobody sees where"
        )
    at = first_difference(plain.tokens, other.tokens)
    if at is None:
        return _Found(verdict="identical")
    if at >= min(len(plain.tokens), len(other.tokens)):
        return _Found(verdict="mismatch", at=at, why="one ends where the other goes on")
    prompt = base.tokenize(question.messages)
    if prompt is None or plain.logprobs is None:
        return _Found(
            verdict="unchecked", at=at, why=f"they part at token {at}; no log-probabilities"
        )
    return _measured(base, [*prompt, *plain.tokens[:at]], (plain, other), at)


def _measured(base: RemoteArm, shared: Seq[int], answers: tuple[Answer, Answer], at: int) -> _Found:
    """The margin at the first difference, and the noise on the way there."""
    plain, other = answers
    assert plain.tokens is not None and other.tokens is not None  # noqa: S101, PT018
    assert plain.logprobs is not None  # noqa: S101 - the caller looked
    try:
        forced = _forced(base, shared)
    except (httpx.HTTPError, KeyError, TypeError, ValueError) as error:
        return _Found(verdict="unchecked", at=at, why=f"teacher forcing failed: {error!r}")
    top, again = forced
    mine, theirs = top.get(plain.tokens[at]), top.get(other.tokens[at])
    if mine is None and theirs is None:
        return _Found(
            verdict="unchecked", at=at, why=f"neither token is among the likeliest {_TOP}"
        )
    least = min(top.values())
    # Below the likeliest ones, a token is at most as likely as the last of them.
    margin = (mine if mine is not None else least) - (theirs if theirs is not None else least)
    pairs = zip(reversed(plain.logprobs[:at]), reversed(again), strict=False)
    noise = 2 * max((abs(a - b) for a, b in pairs if b is not None), default=0.0)
    known = mine is not None and theirs is not None
    tie = known and abs(margin) <= noise
    return _Found(verdict="tie" if tie else "mismatch", at=at, margin=margin, noise=noise)


def _forced(base: RemoteArm, tokens: Seq[int]) -> tuple[Mapping[int, float], list[float | None]]:
    """The baseline's likeliest next tokens after a text read as a prompt, and the
    log-probabilities of the text's own tokens in that pass."""
    body = {
        "model": base.client.model, "prompt": list(tokens), "max_tokens": 1, "temperature": 0,
        "logprobs": _TOP, "prompt_logprobs": 0, "return_tokens_as_token_ids": True,
    }  # fmt: skip
    reply = base.http.post("/v1/completions", json=body)
    reply.raise_for_status()
    choice: dict[str, Any] = reply.json()["choices"][0]
    top = {
        int(name.removeprefix("token_id:")): float(value)
        for name, value in choice["logprobs"]["top_logprobs"][0].items()
    }
    found: list[float | None] = []
    reports = choice.get("prompt_logprobs") or []
    for token, report in zip(tokens[-len(reports) :], reports, strict=True):
        own = (report or {}).get(str(token))
        found.append(float(own["logprob"]) if own is not None else None)
    return top, found
