"""What a grammar costs: microseconds per token, and its share of a round.

    python benchmarks/grammar.py
    python benchmarks/grammar.py --model smollm2-135m --tokens 96 --json grammar.json

Each grammar shapes answers of a real model, with guesses and without. All that the mask does is
timed where the round calls it: asking for the likeliest token, computing masks and applying them
where it is not allowed, following the text, and telling drafters what is allowed and forced.
Everything else of the round is the rest.
Run it on an otherwise idle machine; the first answer of each grammar warms it up and is not
counted, its slowest mask is shown.
"""

import argparse
import json
import time
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

import outpace
from outpace.api import Model
from outpace.control.limits import OFF
from outpace.core.law import TokenMask, fenced
from outpace.core.sampling import Sampling
from outpace.core.score import likeliest
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

    masks: rows whose whole mask was needed. us_per_token: of the mask's own verbs, all of them.
    look_us, apply_us: of finding a row's likeliest token, and of putting a mask onto a row. share:
    all three, of all the time of the answers, prompts included. verbs_us: per call.
    slowest_first_ms: the slowest mask of the answer that warmed the grammar up.
    """

    grammar: str
    guesses: bool
    tokens: int
    rounds: int
    masks: int
    kept: int
    us_per_token: float
    look_us: float
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
            f"{self.rounds:5} rounds {self.ms_per_round:6.2f} ms each {self.masks:5} masks "
            f"{self.us_per_token:6.1f} us per token {self.share:6.2%} of a "
            f"round, {self.tokens_per_s:6.1f} tokens/s; slowest first "
            f"{self.slowest_first_ms:.1f} ms; "
            + ", ".join(f"{verb} {us:.1f} us" for verb, us in self.verbs_us.items())
        )


def row_us(model: Model, grammar: GrammarSpec) -> tuple[float, float]:
    """What core does with one row: look for the likeliest token; fence it by a mask, look again."""
    allowed_V = model.grammars.mask(grammar).allowed(())
    logits_V = torch.randn(model.runtime.traits.vocab_size)

    def both() -> None:
        likeliest(fenced(logits_V, allowed_V))

    return _each_us(lambda: likeliest(logits_V)), _each_us(both)


def _each_us(do: Callable[[], object]) -> float:
    n, found = 50, []
    for _ in range(8):  # the median: other work on the machine comes in bursts
        began = time.perf_counter()
        for _ in range(n):
            do()
        found.append((time.perf_counter() - began) / n * 1e6)
    return median(found)


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
    masks = costs["allowed"].calls if "allowed" in costs else 0
    mask_s = sum(cost.seconds for cost in costs.values())
    look_us, apply_us = row_us(model, GRAMMARS[name][1])
    beside_s = (n_tokens * look_us + masks * apply_us) / 1e6
    return Result(
        grammar=name, guesses=guesses, tokens=n_tokens, rounds=n_rounds, masks=masks, kept=n_kept,
        us_per_token=mask_s / n_tokens * 1e6, look_us=look_us, apply_us=apply_us,
        share=(mask_s + beside_s) / total_s, ms_per_round=total_s / n_rounds * 1e3,
        tokens_per_s=n_tokens / total_s,
        slowest_first_ms=first.costs.get("allowed", Cost()).slowest_s * 1e3,
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
