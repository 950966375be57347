"""Texts of endpoints against the baseline's: what can be told depends on what servers give.

With token ids a difference has a place. With log-probabilities it has a margin, and the noise is
measured: the baseline reads the shared text again, as a prompt (teacher forcing) and with its last
token in a pass of its own. Twice the largest change of a log-probability, on the way and among the
likeliest tokens at the place, is what sizes of passes explain. The candidate's own numbers count
for nothing here: a fault would excuse itself.
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
from outpace.evaluate.arms.served.managed import ManagedArm
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
        plain, again = (_asked(base, question, sampling) for _ in range(2))
        control = _judged(base, question, plain, again).verdict
        for arm in others:
            other = _asked(arm, question, sampling)
            verdict = _judged(base, question, plain, other)
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


def _asked(arm: RemoteArm, question: Question, sampling: Sampling) -> Answer:
    """An answer; a server of ours that died is started again and asked once more."""
    answer = arm.ask(question.messages, sampling)
    if not answer.ok and isinstance(arm, ManagedArm) and arm.dead:
        arm.fresh()
        answer = arm.ask(question.messages, sampling)
    return answer


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
    """The margin at the first difference, and the noise there and on the way to it."""
    plain, other = answers
    assert plain.tokens is not None and other.tokens is not None  # noqa: S101, PT018
    assert plain.logprobs is not None  # noqa: S101 - the caller looked
    try:
        again = _forced(base, shared)
        readings = _readings(base, shared, alone=at > 0)
    except (httpx.HTTPError, KeyError, TypeError, ValueError, IndexError) as error:
        return _Found(verdict="unchecked", at=at, why=f"teacher forcing failed: {error!r}")
    top = readings[0]
    mine, theirs = top.get(plain.tokens[at]), top.get(other.tokens[at])
    if mine is None and theirs is None:
        why = f"neither token is among the likeliest {_TOP}"
        return _Found(verdict="unchecked", at=at, why=why)
    least = min(top.values())
    # Below the likeliest ones, a token is at most as likely as the last of them.
    margin = (mine if mine is not None else least) - (theirs if theirs is not None else least)
    path = zip(reversed(plain.logprobs[:at]), reversed(again), strict=False)
    changes = [abs(a - b) for a, b in path if b is not None]
    changes += [
        abs(top[token] - reading[token])
        for reading in readings[1:]
        for token in top.keys() & reading.keys()
    ]
    noise = 2 * max(changes, default=0.0)
    known = mine is not None and theirs is not None
    tie = known and abs(margin) <= noise
    return _Found(verdict="tie" if tie else "mismatch", at=at, margin=margin, noise=noise)


def _readings(arm: RemoteArm, shared: Seq[int], *, alone: bool) -> list[dict[int, float]]:
    """The likeliest next tokens after a text, read in one pass; and, if its last token is the
    arm's own, in a pass of that token alone."""
    found = [_likeliest(_completed(arm, shared, max_tokens=1), 0)]
    if alone:
        choice = _completed(arm, shared[:-1], max_tokens=2)
        tokens = [_id(name) for name in choice["logprobs"]["tokens"]]
        if len(tokens) > 1 and tokens[0] == shared[-1]:
            found.append(_likeliest(choice, 1))
    return found


def _forced(arm: RemoteArm, tokens: Seq[int]) -> list[float | None]:
    """The log-probabilities of a text's own tokens when it is read as a prompt."""
    choice = _completed(arm, tokens, max_tokens=1, prompt_logprobs=0)
    found: list[float | None] = []
    reports = choice.get("prompt_logprobs") or []
    for token, report in zip(tokens[-len(reports) :], reports, strict=True):
        own = (report or {}).get(str(token))
        found.append(float(own["logprob"]) if own is not None else None)
    return found


def _completed(arm: RemoteArm, tokens: Seq[int], **fields: int) -> dict[str, Any]:
    body = {
        "model": arm.client.model, "prompt": list(tokens), "temperature": 0, "logprobs": _TOP,
        "return_tokens_as_token_ids": True, **fields,
    }  # fmt: skip
    reply = arm.http.post("/v1/completions", json=body)
    reply.raise_for_status()
    choice: dict[str, Any] = reply.json()["choices"][0]
    return choice


def _likeliest(choice: Mapping[str, Any], at: int) -> dict[int, float]:
    pairs = choice["logprobs"]["top_logprobs"][at].items()
    return {_id(name): float(value) for name, value in pairs}


def _id(name: str) -> int:
    return int(name.removeprefix("token_id:"))
