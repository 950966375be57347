"""What a drafter is worth in the engine: tokens per target pass and tokens per second, by category.

Every prompt is answered by every arm before the next prompt, the order of arms turning, so that a
machine that slows down slows all of them. `plain` is the same engine without guesses. An arm's
drafter guesses as the engine's control decides, or, as in `auto@16`, so many nodes every round.

    python benchmarks/heads.py PROMPTS.jsonl --model smollm2-135m --arms plain,auto
    python benchmarks/heads.py PROMPTS.jsonl --arms plain,head@16,auto@16,auto@0 --depth 8 --each 5
    python benchmarks/heads.py PROMPTS.jsonl --arms head@8 --max-tokens 1000 --ignore-eos --along 4

PROMPTS has Spec-Bench's shape: `category` and `turns`, of which the first is used. Intervals are
95 % bootstraps over prompts; ratios of speed are paired by prompt.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence as Seq
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from outpace.api import Model
from outpace.build import RuntimeChoice, load
from outpace.control.limits import OFF, Limits
from outpace.core.repeat import Round
from outpace.core.sampling import Sampling
from outpace.engine.engine import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One prompt by one arm. seconds: of decoding, the prompt's own pass left out.

    drafted_s, scored_s: of it, in the drafter and in passes. emitted: tokens of each pass.
    """

    arm: str
    prompt: int
    category: str
    tokens: tuple[int, ...]
    emitted: tuple[int, ...]
    guesses: int
    seconds: float
    drafted_s: float
    scored_s: float

    @property
    def passes(self) -> int:
        """Passes of the target after the one that read the prompt."""
        return len(self.emitted)

    @property
    def per_pass(self) -> float:
        """Tokens per pass, the first token, which comes with the prompt, left out."""
        return (len(self.tokens) - 1) / max(self.passes, 1)

    @property
    def per_second(self) -> float:
        """Tokens per second, the first left out."""
        return (len(self.tokens) - 1) / self.seconds if self.seconds else float("nan")


def answer(engine: Engine, ids: Seq[int], sampling: Sampling, seed: int) -> list[Round]:
    """All rounds of one request that brought tokens."""
    rounds: list[Round] = []
    engine.add(ids, sampling, seed=seed, sink=rounds.append)
    while not engine.idle:
        engine.step()
    return [done for done in rounds if done.verdict is not None]


def measured(arm: str, at: int, category: str, rounds: Seq[Round]) -> Answer:
    """What the rounds of a request come to."""
    later = rounds[1:]
    return Answer(
        arm=arm,
        prompt=at,
        category=category,
        tokens=tuple(token for done in rounds for token in done.emitted),
        emitted=tuple(len(done.emitted) for done in later),
        guesses=sum(len(done.draft) for done in later),
        seconds=sum(done.seconds.total for done in later),
        drafted_s=sum(done.seconds.draft for done in later),
        scored_s=sum(done.seconds.score for done in later),
    )


def interval(values: Seq[float], weights: Seq[float], seed: int = 0) -> tuple[float, float, float]:
    """sum(values) / sum(weights) and its 95 % bootstrap interval over pairs."""
    v, w = np.asarray(values, float), np.asarray(weights, float)
    rng = np.random.default_rng(seed)
    picks = rng.integers(0, len(v), (2000, len(v)))
    low, high = np.quantile(v[picks].sum(1) / np.maximum(w[picks].sum(1), 1e-12), [0.025, 0.975])
    return float(v.sum() / max(w.sum(), 1e-12)), float(low), float(high)


def tell(answers: Seq[Answer], arms: Seq[str]) -> None:
    """One line per category and arm, and one over all."""
    by_place = {(a.arm, a.prompt): a for a in answers}
    categories = list(dict.fromkeys(a.category for a in answers))
    print("category | arm | tokens/pass | tokens/s | of the first arm | draft us/pass | same text")
    for category in [*categories, "all"]:
        for arm in arms:
            mine = [a for a in answers if a.arm == arm and category in (a.category, "all")]
            n = [len(a.tokens) - 1 for a in mine]
            pace = interval(n, [a.passes for a in mine])
            base = [by_place[arms[0], a.prompt] for a in mine]
            ratio = interval(
                [a.per_second for a in mine if a.seconds], [b.per_second for b in base if b.seconds]
            )
            same = sum(a.tokens == b.tokens for a, b in zip(mine, base, strict=True))
            speed = sum(n) / max(sum(a.seconds for a in mine), 1e-12)
            draft = 1e6 * sum(a.drafted_s for a in mine) / max(sum(a.passes for a in mine), 1)
            print(
                f"{category} | {arm} | {pace[0]:.2f} [{pace[1]:.2f}, {pace[2]:.2f}] | "
                f"{speed:.0f} | {ratio[0]:.2f} [{ratio[1]:.2f}, {ratio[2]:.2f}] | {draft:.0f} | "
                f"{same}/{len(mine)}",
                flush=True,
            )


def tell_along(answers: Seq[Answer], arms: Seq[str], parts: int, longest: int) -> None:
    """Tokens per pass by where in the answer a pass began."""
    print("arm | tokens/pass, by part of the answer")
    for arm in arms:
        tokens = [[0] * parts for _ in answers]
        passes = [[0] * parts for _ in answers]
        for i, a in enumerate(answers):
            at = 1
            for n in a.emitted if a.arm == arm else ():
                part = min(at * parts // longest, parts - 1)
                tokens[i][part] += n
                passes[i][part] += 1
                at += n
        mine = [i for i, a in enumerate(answers) if a.arm == arm]
        found = [
            interval([tokens[i][k] for i in mine], [passes[i][k] for i in mine])
            for k in range(parts)
        ]
        print(f"{arm} | " + " ".join(f"{x:.2f} [{low:.2f}, {high:.2f}]" for x, low, high in found))


def run(options: argparse.Namespace) -> None:
    """All prompts by all arms."""
    rows = [json.loads(line) for line in options.prompts.read_text("utf-8").splitlines()]
    counts: dict[str, int] = defaultdict(int)
    prompts: list[tuple[str, str]] = []
    for row in rows:
        counts[row["category"]] += 1
        if not options.each or counts[row["category"]] <= options.each:
            prompts.append((row["category"], row["turns"][0]))
    arms = options.arms.split(",")
    choice = RuntimeChoice(threads=options.threads)
    with load(options.model, drafter=options.opened, choice=choice) as model:
        engines = {arm: engine_of(model, arm, options.depth) for arm in arms}
        answers: list[Answer] = []
        for at, (category, prompt) in enumerate(prompts):
            ids = model.encode(prompt)
            sampling = Sampling(
                temperature=options.temperature,
                max_tokens=options.max_tokens,
                seed=options.seed,
                ignore_eos=options.ignore_eos,
                rule=options.rule,
            )
            for arm in arms[at % len(arms) :] + arms[: at % len(arms)]:
                rounds = answer(engines[arm], ids, sampling, seed=at)
                answers.append(measured(arm, at, category, rounds))
            if options.out:
                lines = [json.dumps(asdict(a)) for a in answers[-len(arms) :]]
                with options.out.open("a") as file:
                    file.write("\n".join(lines) + "\n")
        tell(answers, arms)
        if options.along:
            tell_along(answers, arms, options.along, options.max_tokens)


def engine_of(model: Model, arm: str, depth: int) -> Engine:
    """An engine of its own for an arm."""
    if arm == "plain":
        return model.engine_with("none", OFF)
    spec, _, nodes = arm.partition("@")
    if not nodes:
        return model.engine_with(spec)
    limits = Limits(max_nodes=int(nodes), max_depth=min(int(nodes), depth), reason="as asked")
    return model.engine_with(spec, limits)


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("prompts", type=Path)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--opened", default="auto", help="drafter the model is opened with")
    parser.add_argument("--arms", default="plain,auto")
    parser.add_argument("--each", type=int, default=0, help="prompts per category; 0 = all")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--rule", default=None)
    parser.add_argument("--depth", type=int, default=8, help="deepest guess of NAME@N arms")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--ignore-eos", action="store_true")
    parser.add_argument("--along", type=int, default=0, help="parts of an answer told apart")
    parser.add_argument("--out", type=Path, default=None, help="append every answer as JSON")
    run(parser.parse_args())


if __name__ == "__main__":
    main()
