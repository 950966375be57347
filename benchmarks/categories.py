"""Does guessing pay for each kind of text? One stream, arms taking turns prompt by prompt.

    python benchmarks/categories.py --each 2 --arms none,auto,mix:lookup+suffix --tokens 128

Prompts are the project's own, so many of each category; seconds are those after the first token,
which has a line of its own.
Each arm keeps its drafter and control from prompt to prompt, as a server does. On a machine that
others use, `chrt -f 10` in front (as root) keeps them away for the half minute it takes.
"""

import argparse
import gc
import json
import time
from collections import defaultdict
from math import exp, log
from pathlib import Path
from statistics import mean, median

import outpace
from outpace.api import Model
from outpace.core.sampling import Sampling
from outpace.engine.engine import Engine
from outpace.runtimes.native.runtime import NativeRuntime

PROMPTS = Path(outpace.__file__).parent / "bench" / "prompts.jsonl"
# By arm: seconds a token of each prompt.
Times = dict[str, list[float]]


def pick(each: int) -> list[tuple[str, str]]:
    """Category and prompt, so many of each category, in the file's order."""
    found: dict[str, int] = defaultdict(int)
    picked: list[tuple[str, str]] = []
    for line in PROMPTS.read_text("utf-8").splitlines():
        item = json.loads(line)
        if found[item["category"]] < each:
            found[item["category"]] += 1
            picked.append((item["category"], item["prompt"]))
    return picked


def answer(
    model: Model, engine: Engine, prompt: str, sampling: Sampling
) -> tuple[list[int], float, float]:
    """The text, seconds to its first token, and seconds a token after that."""
    if isinstance(model.runtime, NativeRuntime):
        model.runtime.forget_beginnings()
    ids, asked = model.encode(prompt), time.perf_counter()
    sequence = engine.add(ids, sampling, seed=0)
    while not sequence.output:
        engine.step()
    before, began = len(sequence.output), time.perf_counter()
    while sequence.finish is None:
        engine.step()
    seconds = time.perf_counter() - began
    return list(sequence.output), began - asked, seconds / (len(sequence.output) - before)


def show(name: str, times: Times, base: str) -> None:
    """One line: plain's time over each arm's: geometric mean, median and worst prompt."""
    told = [f"{name:11s} {base} {1e3 * mean(times[base]):.2f} ms"]
    for arm, seconds in times.items():
        if arm != base:
            ratios = [a / b for a, b in zip(times[base], seconds, strict=True)]
            center = exp(mean(map(log, ratios)))
            told.append(
                f"{arm} {center:.2f} (median {median(ratios):.2f}, worst {min(ratios):.2f})"
            )
    print(", ".join(told), flush=True)


def main() -> None:
    """Print a line per category, and one for all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--arms", default="none,auto")
    parser.add_argument("--each", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--temperature", type=float, default=0.0)
    args = parser.parse_args()
    arms = args.arms.split(",")
    sampling = Sampling(max_tokens=args.tokens, ignore_eos=True, temperature=args.temperature)
    times: dict[str, Times] = defaultdict(lambda: {arm: [] for arm in arms})
    first: Times = {arm: [] for arm in arms}
    n_same = n_texts = 0
    # Loaded for guesses by default, so that the model returns what a head of its reads.
    with outpace.load(args.model) as model:
        engines = {arm: model.engine_with(arm) for arm in arms}
        for arm in arms:
            answer(model, engines[arm], "Hello", Sampling(max_tokens=8, ignore_eos=True))
        gc.collect()
        gc.freeze()
        for at, (category, prompt) in enumerate(pick(args.each)):
            texts = {}
            for arm in arms if at % 2 else arms[::-1]:
                texts[arm], first_s, seconds = answer(model, engines[arm], prompt, sampling)
                first[arm].append(first_s)
                times[category][arm].append(seconds)
                times["all"][arm].append(seconds)
            n_texts += 1
            n_same += len({tuple(text) for text in texts.values()}) == 1
    for category in [*(c for c in times if c != "all"), "all"]:
        show(category, times[category], arms[0])
    show("first token", first, arms[0])
    print(f"{n_same} of {n_texts} texts are the same in all arms")


if __name__ == "__main__":
    main()
