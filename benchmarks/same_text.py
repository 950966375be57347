"""Is every text with guesses the text without them? Prompts x samplings x drafters x depths.

    python benchmarks/same_text.py --model smollm2-135m
    python benchmarks/same_text.py --n-prompts 10 --n-tokens 128 --depths 0,4 --drafters lookup
    python benchmarks/same_text.py --per-arm 10   # each arm another ten of the hundred prompts

Each prompt is decoded plainly once per sampling (temperature 0, and 0.8 with a seed); every other
arm must give the same token ids. Depth 0 is the baseline against itself, with a drafter watching.
How a difference is judged: `outpace.evaluate.exactness`. Speeds are printed to see that it
runs, not as a result: drafters that remember earlier answers meet the same prompts again here.

The summary goes to stdout, progress to stderr, all numbers to --json, rewritten after each arm,
so that an interrupted run keeps what it has. Exit status 1 = at least one mismatch.
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import torch

import outpace
from outpace.api import Model
from outpace.build import RuntimeChoice
from outpace.core.sampling import Sampling
from outpace.errors import OutpaceError
from outpace.evaluate.exactness import Arm, Case, Outcome, Text, run_arm

PROMPTS = Path(outpace.__file__).parent / "bench" / "prompts.jsonl"
_FIRST_SEED = 1000
_T = TypeVar("_T")


def arms_of(drafter: str, depths: Seq[int], temperatures: Seq[float]) -> Iterator[Arm]:
    """Every way to use one drafter: chains and trees at each depth, and depth 0 once."""
    for temperature in temperatures:
        for depth in depths:
            for trees in (False, True) if depth else (False,):
                yield Arm(drafter=drafter, temperature=temperature, depth=depth, trees=trees)


def cases_of(model: Model, path: Path, args: argparse.Namespace, temperature: float) -> list[Case]:
    """The prompts of a JSONL file ("prompt" per line, "id" if it has one), encoded."""
    lines = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines() if text]
    return [
        Case(
            name=str(item.get("id", at)),
            prompt=tuple(model.encode(item["prompt"], raw=model.template is None)),
            sampling=Sampling(
                temperature=temperature,
                max_tokens=args.n_tokens,
                ignore_eos=not args.stop_at_eos,
                seed=_FIRST_SEED + at if temperature else None,
            ),
        )
        for at, item in enumerate(lines[: args.n_prompts])
    ]


def total_of(outcomes: Iterable[Outcome]) -> dict[str, object]:
    """What all arms that were compared amount to."""
    compared = [o for o in outcomes if o.arm.drafter != "none"]
    n = sum(o.n_texts for o in compared)
    mismatches = sum(o.count("mismatch") for o in compared)
    return {
        "texts": n,
        "same": sum(o.n_same for o in compared),
        "ties": sum(o.count("tie") for o in compared),
        "mismatches": mismatches,
        # The rate at which n texts without a mismatch would be a 1 in 20 surprise.
        "mismatch_rate_below_95": 1 - 0.05 ** (1 / n) if n and not mismatches else None,
    }


def line(o: Outcome) -> str:
    """One arm for people."""
    arm = o.arm
    shape = "tree" if arm.trees else "chain" if arm.depth else "-"
    return (
        f"{arm.drafter:<18} T {arm.temperature:<4g} depth {arm.depth} {shape:<5} "
        f"{o.n_same:>4}/{o.n_texts} same  {o.count('tie')} ties  {o.count('mismatch')} mismatches  "
        f"{o.n_tokens / max(o.n_rounds, 1):.2f} tokens/pass  {o.n_tokens / o.seconds:.0f} tokens/s"
    )


def share_of(items: list[_T], per_arm: int, n: int) -> list[_T]:
    """Arm number n's own `per_arm` of them, in turn; 0 = all."""
    if not per_arm:
        return items
    return [items[(n * per_arm + i) % len(items)] for i in range(min(per_arm, len(items)))]


class Progress:
    """One line on stderr, rewritten at most twice a second."""

    def __init__(self, n_arms: int) -> None:
        self.label = ""
        self._n_arms, self._n_done, self._n_tokens = n_arms, -1, 0
        self._began = self._shown = time.perf_counter()

    def next_arm(self, label: str) -> None:
        self.label, self._n_tokens = label, 0
        self._n_done += 1

    def __call__(self, n_tokens: int) -> None:
        self._n_tokens += n_tokens
        now = time.perf_counter()
        if sys.stderr.isatty() and now - self._shown > 0.5:
            self._shown = now
            print(
                f"\r[{self._n_done}/{self._n_arms}] {self.label}: {self._n_tokens} tokens, "
                f"{now - self._began:.0f} s so far\x1b[K",
                end="", file=sys.stderr, flush=True,
            )  # fmt: skip


def facts_of(model: Model, args: argparse.Namespace) -> dict[str, object]:
    """What was run, on what."""
    traits = model.runtime.traits
    return {
        "schema": 1,
        "model": model.name,
        "runtime": traits.name,
        "digest": traits.digest,
        "row_invariant": traits.row_invariant,
        "trees": traits.trees,
        "n_prompts": args.n_prompts,
        "per_arm": args.per_arm or args.n_prompts,
        "n_tokens": args.n_tokens,
        "n_streams": args.streams,
        "ignore_eos": not args.stop_at_eos,
        "outpace": outpace.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.platform(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }


def run(args: argparse.Namespace) -> int:
    """All arms of all drafters; returns the exit status."""
    outcomes: list[Outcome] = []
    plain: dict[float, list[Text]] = {}
    by_drafter = {d: list(arms_of(d, args.depths, args.temperatures)) for d in args.drafters}
    first = [Arm(drafter="none", temperature=t, depth=0, trees=False) for t in args.temperatures]
    progress = Progress(len(first) + sum(map(len, by_drafter.values())))
    for drafter, arms in {"none": first, **by_drafter}.items():
        with outpace.load(
            args.model, drafter=drafter, choice=RuntimeChoice(
                runtime=args.runtime, weights=args.weights, threads=args.threads
            ),
        ) as model:  # fmt: skip
            facts = facts_of(model, args)
            for n, arm in enumerate(arms):
                progress.next_arm(f"{drafter} T {arm.temperature:g} depth {arm.depth}")
                cases = cases_of(model, args.prompts, args, arm.temperature)
                known = plain.get(arm.temperature)
                if known is not None:
                    cases, known = (
                        share_of(cases, args.per_arm, n),
                        share_of(known, args.per_arm, n),
                    )
                outcome, texts = run_arm(
                    model.runtime, model.drafter, arm, cases, known, tick=progress,
                    n_streams=1 if drafter == "none" else args.streams,
                )  # fmt: skip
                plain.setdefault(arm.temperature, texts)
                outcomes.append(outcome)
                print(("\r\x1b[K" if sys.stderr.isatty() else "") + line(outcome), flush=True)
                if args.json:
                    document = {**facts, "total": total_of(outcomes)}
                    document["arms"] = [{**asdict(o), "n_same": o.n_same} for o in outcomes]
                    args.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    total = total_of(outcomes)
    print(json.dumps(total))
    return 1 if total["mismatches"] else 0


def parse(argv: Seq[str] | None = None) -> argparse.Namespace:
    """The command line; lists are separated by commas."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--model", default="smollm2-135m", help="catalog name, path or hub id")
    add("--prompts", type=Path, default=PROMPTS, help="JSONL with a prompt a line")
    add("--n-prompts", type=int, default=100)
    add("--n-tokens", type=int, default=512)
    add("--per-arm", type=int, default=0, help="prompts of an arm, in turn; 0 = all of them")
    add("--drafters", type=lambda s: s.split(","), default=["lookup", "suffix", "auto"])
    add("--depths", type=lambda s: [int(x) for x in s.split(",")], default=list(range(9)))
    add("--temperatures", type=lambda s: [float(x) for x in s.split(",")], default=[0.0, 0.8])
    add("--streams", type=int, default=1, help="texts that share passes; plain is alone")
    add("--stop-at-eos", action="store_true", help="let texts end before --n-tokens")
    add("--runtime", default="auto")
    add("--weights", default="auto")
    add("--threads", type=int)
    add("--json", type=Path, help="where the numbers go")
    return parser.parse_args(argv)


if __name__ == "__main__":
    try:
        sys.exit(run(parse()))
    except OutpaceError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
