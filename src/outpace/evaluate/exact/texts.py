"""Texts of in-process arms against plain texts: identical, a tie, or a mismatch.

The baseline decodes every prompt twice, which is the control: a baseline that differs from itself
explains nothing else. Texts go on past their own end to the length that was asked for, since what
goes wrong late is what short texts hide.
"""

from collections.abc import Callable
from collections.abc import Sequence as Seq

from outpace.bench.client import encode
from outpace.core.sampling import Sampling
from outpace.evaluate.arms.arm import Asked
from outpace.evaluate.arms.local import LocalArm, engine_of
from outpace.evaluate.arms.planted import distorted
from outpace.evaluate.exact.kept import Kept
from outpace.evaluate.exactness import Case, Text, decode, judge
from outpace.evaluate.judge.verified import SameOrNot, TextCheck
from outpace.evaluate.measure.schedule import Question

Tick = Callable[[int, str], None]
# Beyond this, room is left in the context for the tokens of a last round.
_SPARE_TOKENS = 32


def compare(
    baseline: LocalArm, others: Seq[LocalArm], questions: Seq[Question], *, n_tokens: int,
    seed: int, kept: Kept, tick: Tick,
) -> list[TextCheck]:  # fmt: skip
    """All arms on all prompts, at each prompt's temperatures."""
    found: list[TextCheck] = []
    for place, question in enumerate(questions):
        for temperature in question.temperatures:
            known = [kept.text(arm.name, question.id, temperature) for arm in others]
            if all(known):
                tick(len(others), "same text: compared before")
                found += [check for check in known if check is not None]
                continue
            case = _case(baseline, question, temperature, n_tokens, seed + place)
            plain, again = _text(baseline, case), _text(baseline, case)
            control = _judged(baseline, case, plain, again)[0]
            for arm in others:
                check = _check(baseline, arm, question, case, plain)
                found.append(kept.keep(check.model_copy(update={"control": control})))
                tick(1, f"same text: {arm.name}")
    return found


def _check(
    baseline: LocalArm, arm: LocalArm, question: Question, case: Case, plain: Text
) -> TextCheck:
    arm.settle([Asked(messages=question.messages, sampling=case.sampling)])
    verdict, at, margin, noise = _judged(baseline, case, plain, _text(arm, case))
    return TextCheck(
        arm=arm.name, prompt=question.id, temperature=case.sampling.temperature, verdict=verdict,
        at=at, margin=margin, noise=noise, n_tokens=len(plain.tokens),
        how="token ids, in this process",
    )  # fmt: skip


def _case(arm: LocalArm, question: Question, temperature: float, n_tokens: int, seed: int) -> Case:
    prompt = tuple(encode(arm.model, question.messages))
    room = arm.model.runtime.traits.context_tokens - len(prompt) - _SPARE_TOKENS
    sampling = Sampling(
        temperature=temperature, max_tokens=max(1, min(n_tokens, room)), ignore_eos=True,
        seed=seed if temperature else None,
    )  # fmt: skip
    return Case(name=question.id, prompt=prompt, sampling=sampling)


def _text(arm: LocalArm, case: Case) -> Text:
    """The arm's own way to decode it, on a new engine."""
    planted = arm.arm.test_only
    asked = Case(
        name=case.name, prompt=case.prompt, sampling=arm.sampling(distorted(case.sampling, planted))
    )
    (text,) = decode(engine_of(arm.arm, arm.model, arm.scripts), [asked])
    return text


def _judged(
    baseline: LocalArm, case: Case, plain: Text, other: Text
) -> tuple[SameOrNot, int | None, float | None, float | None]:
    difference = judge(baseline.model.runtime, case, plain, other)
    if difference is None:
        return "identical", None, None, None
    margin = None if difference.margin == float("inf") else difference.margin
    return difference.verdict, difference.at, margin, difference.noise
