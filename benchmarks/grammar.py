"""What a grammar costs: microseconds per row, and its share of a round.

    python benchmarks/grammar.py
    python benchmarks/grammar.py --model smollm2-135m --tokens 96 --json grammar.json

Each grammar shapes answers of a real model, with guesses and without. All that the mask does is
timed where the round calls it: computing masks and applying them to the logits, following the
text, and telling drafters what is allowed and forced. Everything else of the round is the rest.
Run it on an otherwise idle machine; the first answer of each grammar warms it up and is not
counted, its slowest mask is shown.
"""

import argparse
import json
import time
from collections.abc import Sequence as Seq
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

import outpace
from outpace.api import Model
from outpace.control.limits import OFF
from outpace.core.law import TokenMask, fenced, likeliest
from outpace.core.sampling import Sampling
from outpace.generation import Generation
from outpace.text.grammar import spec
from outpace.text.grammar.spec import GrammarSpec

PERSON = {
    "type": "object", "required": ["name", "age", "email", "tags"], "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "email": {"type": "string", "pattern": "^[a-z0-9.]{1,20}@[a-z0-9]{1,15}\\.[a-z]{2,3}$"},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 20}, "maxItems": 4},
    },
}  # fmt: skip
GRAMMARS: dict[str, tuple[str, GrammarSpec]] = {
    "json_schema": ("Describe a person called Ada as JSON.", spec.json_schema(PERSON)),
    "json_object": ("Give three cities and their countries as JSON.", spec.json_object()),
    "regex": ("Write a short sentence.", spec.regex(r"[A-Z][a-z]+( [a-z]+){4,30}\.")),
    "choice": ("Is water wet?", spec.choice(["yes", "no", "It depends on how one defines wet."])),
    "lark": ("Write a long sum.", spec.grammar('start: N (" + " N){5,30}\nN: /[0-9]{1,4}/')),
}


@dataclass(slots=True)
class Cost:
    """Of one kind of call."""

    calls: int = 0
    seconds: float = 0.0
    slowest_s: float = 0.0

    def add(self, seconds: float) -> None:
        self.calls += 1
        self.seconds += seconds
        self.slowest_s = max(self.slowest_s, seconds)


@dataclass(slots=True)
class Timed(TokenMask):
    """A mask, and what each of its verbs took."""

    mask: TokenMask
    costs: dict[str, Cost] = field(default_factory=dict)

    def _took(self, verb: str, began: float) -> None:
        self.costs.setdefault(verb, Cost()).add(time.perf_counter() - began)

    def allowed(self, guesses: Seq[int]) -> Tensor | None:
        began = time.perf_counter()
        found = self.mask.allowed(guesses)
        self._took("allowed", began)
        return found

    def advance(self, token: int) -> None:
        began = time.perf_counter()
        self.mask.advance(token)
        self._took("advance", began)

    def accepts(self, guesses: Seq[int], token: int) -> bool:
        began = time.perf_counter()
        found = self.mask.accepts(guesses, token)
        self._took("accepts", began)
        return found

    def forced(self, guesses: Seq[int]) -> Seq[int]:
        began = time.perf_counter()
        found = self.mask.forced(guesses)
        self._took("forced", began)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One grammar, with guesses or without.

    us_per_row: of the mask's own verbs, all of them, per mask that was computed; apply_us: of
    putting it onto one row of logits. share: both, of all the time of the answers, prompts
    included. verbs_us: per call. slowest_first_ms: the slowest mask of the answer that warmed the
    grammar up.
    """

    grammar: str
    guesses: bool
    tokens: int
    rounds: int
    rows: int
    kept: int
    us_per_row: float
    apply_us: float
    share: float
    ms_per_round: float
    tokens_per_s: float
    slowest_first_ms: float
    verbs_us: dict[str, float]

    def line(self) -> str:
        """For people."""
        return (
            f"{self.grammar:12} {'guesses' if self.guesses else 'plain':8} {self.tokens:5} tokens "
            f"{self.rounds:5} rounds {self.ms_per_round:6.2f} ms each {self.rows:5} masks "
            f"{self.us_per_row:6.1f} + {self.apply_us:5.1f} us per row {self.share:6.2%} of a "
            f"round, {self.tokens_per_s:6.1f} tokens/s; slowest first "
            f"{self.slowest_first_ms:.1f} ms; "
            + ", ".join(f"{verb} {us:.1f} us" for verb, us in self.verbs_us.items())
        )


def apply_us(model: Model, grammar: GrammarSpec) -> float:
    """What core does with one mask: fence the row, and look for what is left."""
    allowed_V = model.grammars.mask(grammar).allowed(())
    logits_V = torch.randn(model.runtime.traits.vocab_size)
    n, rounds_us = 50, []
    for _ in range(8):  # the median: other work on the machine comes in bursts
        began = time.perf_counter()
        for _ in range(n):
            likeliest(fenced(logits_V, allowed_V))
        rounds_us.append((time.perf_counter() - began) / n * 1e6)
    return median(rounds_us)


def answer(model: Model, name: str, *, guesses: bool, tokens: int) -> tuple[Generation, Timed]:
    """One answer, with the mask's calls timed."""
    prompt, grammar = GRAMMARS[name]
    mask = Timed(model.grammars.mask(grammar))
    sampling = Sampling(max_tokens=tokens)
    limits = None if guesses else OFF
    made = Generation(model, model.encode(prompt), sampling, mask=mask, limits=limits, trace=None)
    for _ in made:
        pass
    return made, mask


def measure(model: Model, name: str, *, guesses: bool, tokens: int, times: int) -> Result:
    """Warm up once, then count `times` answers."""
    _, first = answer(model, name, guesses=guesses, tokens=tokens)
    costs: dict[str, Cost] = {}
    n_tokens = n_rounds = n_kept = 0
    total_s = 0.0
    for _ in range(times):
        made, mask = answer(model, name, guesses=guesses, tokens=tokens)
        stats = made.completion().stats
        n_tokens += stats.completion_tokens
        n_rounds += stats.rounds
        n_kept += stats.kept
        total_s += stats.seconds.total - stats.seconds.load
        for verb, cost in mask.costs.items():
            sums = costs.setdefault(verb, Cost())
            sums.calls += cost.calls
            sums.seconds += cost.seconds
    rows = costs["allowed"].calls
    mask_s = sum(cost.seconds for cost in costs.values())
    each_us = apply_us(model, GRAMMARS[name][1])
    return Result(
        grammar=name, guesses=guesses, tokens=n_tokens, rounds=n_rounds, rows=rows, kept=n_kept,
        us_per_row=mask_s / rows * 1e6, apply_us=each_us,
        share=(mask_s + rows * each_us / 1e6) / total_s, ms_per_round=total_s / n_rounds * 1e3,
        tokens_per_s=n_tokens / total_s,
        slowest_first_ms=first.costs["allowed"].slowest_s * 1e3,
        verbs_us={verb: cost.seconds / cost.calls * 1e6 for verb, cost in costs.items()},
    )  # fmt: skip


def main() -> None:
    """Measure every grammar, or those named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", default="smollm2-135m")
    # No memory of earlier answers: the same prompts come again.
    parser.add_argument("--drafter", default="mix:lookup")
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--grammars", default=",".join(GRAMMARS))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    results: list[Result] = []
    with outpace.load(args.model, drafter=args.drafter) as model:
        began = time.perf_counter()
        model.grammars.words()
        print(f"the vocabulary's trie: {time.perf_counter() - began:.2f} s, once per model")
        for name in args.grammars.split(","):
            began = time.perf_counter()
            model.grammars.mask(GRAMMARS[name][1])
            print(f"{name} compiled in {(time.perf_counter() - began) * 1e3:.1f} ms")
            for guesses in (False, True):
                results.append(
                    measure(model, name, guesses=guesses, tokens=args.tokens, times=args.times)
                )
                print(results[-1].line(), flush=True)
    if args.json:
        args.json.write_text(json.dumps([asdict(r) for r in results], indent=1) + "\n")


if __name__ == "__main__":
    main()
