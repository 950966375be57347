"""What drawing a token costs, by how it is drawn: one stream, no guesses.

    chrt -f 10 python benchmarks/sampling.py --tokens 150

The text differs by sampling; its length does not. Score is the model's pass, choose all that
follows it: law, draw, commit.
"""

import argparse
import gc
import time
from collections.abc import Mapping
from typing import Any

import outpace
from outpace.core.sampling import Sampling

WAYS: Mapping[str, Mapping[str, Any]] = {
    "temperature 0": {"temperature": 0.0},
    "temperature 1": {"temperature": 1.0},
    "temperature 1, seed": {"temperature": 1.0, "seed": 5},
    "temperature 1, top-p 0.9": {"temperature": 1.0, "top_p": 0.9},
    "temperature 1, top-k 40": {"temperature": 1.0, "top_k": 40},
    "0.8, top-p 0.95, top-k 40, seed": {
        "temperature": 0.8, "top_p": 0.95, "top_k": 40, "seed": 3,
    },
    "repetition penalty 1.1": {"temperature": 0.0, "repetition_penalty": 1.1},
    "logprobs 5": {"temperature": 0.0, "logprobs": 5},
}  # fmt: skip
PROMPT = "Write a short story about a lighthouse keeper and the sea."


def main() -> None:
    """Print a line per way."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--tokens", type=int, default=150)
    args = parser.parse_args()
    with outpace.load(args.model, drafter="none") as model:
        gc.collect()
        gc.freeze()
        engine, ids = model.engine_with("none"), model.encode(PROMPT)
        for name, options in WAYS.items():
            sampling = Sampling(max_tokens=args.tokens, ignore_eos=True, **options)
            sequence = engine.add(ids, sampling, seed=1)
            while not sequence.output:
                engine.step()
            score_s, choose_s, n, began = 0.0, 0.0, 0, time.perf_counter()
            while sequence.finish is None:
                (done,) = engine.step()
                score_s += done.seconds.score
                choose_s += done.seconds.accept + done.seconds.resample + done.seconds.repeat
                n += 1
            per_s = n / (time.perf_counter() - began)
            told = f"score {1e3 * score_s / n:.2f} ms, choose {1e3 * choose_s / n:.2f} ms"
            print(f"{name:32s} {per_s:6.0f} tokens/s, {told}", flush=True)


if __name__ == "__main__":
    main()
