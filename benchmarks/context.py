"""Milliseconds of one pass by rows and context, through the runtime's five verbs.

python benchmarks/context.py --model smollm2-135m --rows 1,4,8,16 --contexts 256,2048,4096
"""

import argparse
import random
import statistics
import time

import outpace
from outpace.core.score import Rows, Runtime

_KEY = 1
_CHUNK = 512


def fill(runtime: Runtime, tokens: list[int]) -> None:
    """Read a text of the context's length."""
    runtime.open(_KEY, tokens)
    for start in range(0, len(tokens), _CHUNK):
        part = tokens[start : start + _CHUNK]
        runtime.reserve(_KEY, len(part))
        parents = range(-1, len(part) - 1)
        runtime.extend([Rows(key=_KEY, tokens=part, parents=parents, asked=())])
        runtime.keep(_KEY, range(len(part)))


def milliseconds(runtime: Runtime, context: int, rows: int, repeats: int) -> float:
    """The median pass of a chain of `rows` after `context` tokens, argmax only."""
    rng = random.Random(context)
    tokens = [rng.randrange(runtime.traits.vocab_size) for _ in range(context)]
    fill(runtime, tokens)
    chain = Rows(
        key=_KEY,
        tokens=tokens[:rows],
        parents=range(-1, rows - 1),
        asked=range(rows),
        logits=False,
    )
    seconds = []
    for _ in range(repeats):
        runtime.reserve(_KEY, rows)
        began = time.perf_counter()
        runtime.extend([chain])
        seconds.append(time.perf_counter() - began)
        runtime.keep(_KEY, ())
    runtime.close(_KEY)
    return statistics.median(seconds) * 1e3


def main() -> None:
    """Print a table; contexts take turns, so that a disturbance hits all alike."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--rows", default="1,4,8,16")
    parser.add_argument("--contexts", default="256,2048,4096")
    parser.add_argument("--repeats", type=int, default=40)
    args = parser.parse_args()
    contexts = [int(n) for n in args.contexts.split(",")]
    with outpace.load(args.model, drafter="none") as model:
        print("| rows |", " | ".join(f"context {c}, ms" for c in contexts), "| last / first |")
        for rows in (int(n) for n in args.rows.split(",")):
            found = [milliseconds(model.runtime, c, rows, args.repeats) for c in contexts]
            cells = " | ".join(f"{ms:.2f}" for ms in found)
            print(f"| {rows} | {cells} | {found[-1] / found[0]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
