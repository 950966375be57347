"""Samples of both arms, handed to the tests of `stats`: is the law of sampled texts the same?

In this process the law is known: the baseline's logits after the prompt, and after each likely
first token, give the law of the first two tokens together, and samples of an arm are held against
that. On endpoints two samples are held against each other. Each sample counts one outcome, so
that samples are independent.
"""

from collections import Counter
from collections.abc import Hashable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace

from outpace.bench.client import encode
from outpace.core.law import History, Laws
from outpace.core.sampling import Sampling
from outpace.core.score import Rows, Runtime
from outpace.errors import ContractError
from outpace.evaluate.arms.arm import OpenArm
from outpace.evaluate.arms.local import LocalArm, engine_of
from outpace.evaluate.arms.planted import distorted
from outpace.evaluate.exact.texts import Tick
from outpace.evaluate.judge.verified import LawCheck
from outpace.evaluate.measure.schedule import Question
from outpace.evaluate.plan.criteria import SameLaw
from outpace.evaluate.plan.document import BASELINE, Plan
from outpace.stats import LawTest, g_test, two_sample

PROMPTS, SAMPLES, STREAMS = 4, 400, 16
_FIRST_TOKENS, _KEY = 24, 2**41
_REMOTE_SAMPLES, _AT = 60, 4

Stratum = tuple[Mapping[Hashable, int], Mapping[Hashable, float]]


def sampled_laws(
    arms: Mapping[str, OpenArm], plan: Plan, questions: Seq[Question], tick: Tick
) -> dict[str, tuple[LawCheck, ...]]:
    """One test per arm but the baseline."""
    alpha = min(c.alpha for c in plan.criteria if isinstance(c, SameLaw))
    warm = [q for q in questions if any(q.temperatures)][:PROMPTS]
    base = arms[BASELINE]
    found: dict[str, tuple[LawCheck, ...]] = {}
    for name, arm in arms.items():
        if name == BASELINE or not warm:
            continue
        tick(0, f"same law: {name}")
        if isinstance(base, LocalArm) and isinstance(arm, LocalArm):
            strata = [_known(base, arm, q, _sampling(plan, q)) for q in warm]
            test = g_test(strata, alpha=alpha)
        else:
            pairs = [_both(base, arm, q, _sampling(plan, q)) for q in warm]
            test = two_sample(pairs, alpha=alpha, seed=plan.design.seed)
        if test is not None:
            found[name] = (_check(test, warm),)
    return found


def _check(test: LawTest, questions: Seq[Question]) -> LawCheck:
    what = "first two tokens" if test.kind == "known law" else f"token {_AT}"
    return LawCheck(
        prompt=", ".join(q.id for q in questions), temperature=max(questions[0].temperatures),
        test=test.kind, p_value=test.p, n=test.n, detectable_tv=test.detectable_tv,
        found=f"{what}, all prompts together",
    )  # fmt: skip


def _sampling(plan: Plan, question: Question) -> Sampling:
    s = plan.sampling
    temperature = max(question.temperatures)
    return Sampling(
        temperature=temperature, top_p=s.top_p, top_k=s.top_k, min_p=s.min_p, max_tokens=2,
        ignore_eos=True,
    )  # fmt: skip


def _known(base: LocalArm, arm: LocalArm, question: Question, sampling: Sampling) -> Stratum:
    """How often each pair of first tokens came, and how likely it is."""
    prompt = encode(base.model, question.messages)
    asked = arm.sampling(distorted(sampling, arm.arm.test_only))
    engine = engine_of(arm.arm, arm.model, arm.scripts)
    pairs: Counter[Hashable] = Counter()
    n_asked = 0
    running = []
    while n_asked < SAMPLES or not engine.idle:
        while n_asked < SAMPLES and engine.n_running + engine.n_waiting < STREAMS:
            running.append(engine.add(prompt, asked, seed=n_asked))
            n_asked += 1
        engine.step()
        for done in [s for s in running if s.finish is not None]:
            running.remove(done)
            pairs[tuple(done.output)] += 1
    return pairs, _law_of_two(base.model.runtime, prompt, sampling)


def _law_of_two(runtime: Runtime, prompt: Seq[int], sampling: Sampling) -> dict[Hashable, float]:
    """Probability of the likeliest pairs of first tokens; what is left out is not listed."""
    first = _law(runtime, prompt, (), sampling)
    law: dict[Hashable, float] = {}
    for token in sorted(first, key=lambda t: -first[t])[:_FIRST_TOKENS]:
        for after, share in _law(runtime, prompt, (token,), sampling).items():
            law[token, after] = first[token] * share
    return law


def _law(
    runtime: Runtime, prompt: Seq[int], output: tuple[int, ...], sampling: Sampling
) -> dict[int, float]:
    """The law of the token after prompt and output, its support only."""
    tokens = [*prompt, *output]
    known = runtime.open(_KEY, tokens)
    try:
        n = len(tokens) - known
        runtime.reserve(_KEY, n)
        rows = Rows(key=_KEY, tokens=tokens[known:], parents=range(-1, n - 1), asked=(n - 1,))
        (score,) = runtime.extend([rows])
    finally:
        runtime.close(_KEY)
    if score.logits_AV is None:
        raise ContractError("a pass that was asked for logits gave none")
    history = History(tuple(prompt), list(output))
    laws = Laws(sampling=sampling, history=history, paths=((),), logits_AV=score.logits_AV)
    law_V = laws.law(0)
    support = law_V.nonzero().flatten().tolist()
    return {int(token): float(law_V[token]) for token in support}


def _both(
    base: OpenArm, arm: OpenArm, question: Question, sampling: Sampling
) -> tuple[list[Hashable], list[Hashable]]:
    """One outcome per sample of each: the token at a place that speculation can reach."""
    longer = replace(sampling, max_tokens=_AT + 1)
    found: list[list[Hashable]] = []
    for one in (base, arm):
        outcomes: list[Hashable] = []
        for _ in range(_REMOTE_SAMPLES):
            answer = one.ask(question.messages, longer, want_text=True)
            if answer.ok:
                ids = answer.tokens
                outcomes.append(ids[_AT] if ids and len(ids) > _AT else answer.text)
        found.append(outcomes)
    return found[0], found[1]
