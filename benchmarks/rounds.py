"""Where a round's time goes with many sequences: each stage, and what lies outside all of them.

    python benchmarks/rounds.py --streams 8,32 --arms none,auto,none,auto

All sequences start together and their prompts are read before the clock starts; only rounds in
which every sequence still takes part are counted, so that a batch that thins out compares fairly.
Outside the stages are the schedule, the control and the drafters' observing.
"""

import argparse
import json
import time
from pathlib import Path

import outpace
from outpace.api import Model
from outpace.core.repeat import Round
from outpace.core.sampling import Sampling
from outpace.runtimes.native.runtime import NativeRuntime

PROMPTS = Path(outpace.__file__).parent / "bench" / "prompts.jsonl"
_STAGES = ("draft", "score", "accept", "resample", "repeat")


def stage_seconds(rounds: list[Round]) -> dict[str, float]:
    """One pass: draft and score are the batch's, the others add up over sequences."""
    found = {name: getattr(rounds[0].seconds, name) for name in _STAGES[:2]}
    for name in _STAGES[2:]:
        found[name] = sum(getattr(done.seconds, name) for done in rounds)
    return found


def measure(model: Model, arm: str, prompts: list[list[int]], n_tokens: int) -> dict[str, float]:
    """Milliseconds a round by stage, tokens a second, guesses and kept guesses a round."""
    engine = model.engine_with(arm)
    if isinstance(model.runtime, NativeRuntime):
        model.runtime.forget_beginnings()
    sampling = Sampling(max_tokens=n_tokens, ignore_eos=True)
    sequences = [engine.add(ids, sampling, seed=0) for ids in prompts]
    while any(not s.output for s in sequences):
        engine.step()
    totals = dict.fromkeys((*_STAGES, "outside", "tokens", "guesses", "kept"), 0.0)
    n_rounds, wall_s = 0, 0.0
    while all(s.finish is None for s in sequences):
        began = time.perf_counter()
        rounds = engine.step()
        took_s = time.perf_counter() - began
        seconds = stage_seconds(rounds)
        for name, value in seconds.items():
            totals[name] += value
        totals["outside"] += took_s - sum(seconds.values())
        totals["tokens"] += sum(len(done.emitted) for done in rounds)
        totals["guesses"] += sum(len(done.draft) for done in rounds)
        totals["kept"] += sum(done.n_kept for done in rounds)
        n_rounds, wall_s = n_rounds + 1, wall_s + took_s
    while not engine.idle:
        engine.step()
    found = {f"{name}_ms": totals[name] / n_rounds * 1e3 for name in (*_STAGES, "outside")}
    return found | {
        "tokens_per_s": totals["tokens"] / wall_s,
        "guesses": totals["guesses"] / n_rounds,
        "kept": totals["kept"] / n_rounds,
    }


def main() -> None:
    """Print a line per arm, in the order given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--streams", default="8,32")
    parser.add_argument("--arms", default="none,auto,none,auto")
    parser.add_argument("--tokens", type=int, default=160)
    args = parser.parse_args()
    texts = [json.loads(line)["prompt"] for line in PROMPTS.read_text("utf-8").splitlines()]
    with outpace.load(args.model, drafter="none", others=args.arms.split(",")) as model:
        for n_streams in (int(n) for n in args.streams.split(",")):
            prompts = [model.encode(text) for text in texts[:n_streams]]
            for arm in args.arms.split(","):
                found = measure(model, arm, prompts, args.tokens)
                told = ", ".join(f"{name} {value:.2f}" for name, value in found.items())
                print(f"{n_streams} streams, {arm}: {told}", flush=True)


if __name__ == "__main__":
    main()
