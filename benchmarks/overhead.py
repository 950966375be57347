"""What guessing costs and brings with many sequences, on a machine that others use.

    python benchmarks/overhead.py --model smollm2-135m --streams 1,4,8,16,32

The engine, the control and the drafters are the real ones; the model is not run. Its texts were
decoded plainly once, and a pass over them takes the seconds that a profile of the model says such a
pass takes, on a clock of its own; everything else takes the CPU time it takes. So other processes
disturb hardly anything, and a percent can be seen in seconds. What it cannot show is what guesses
do to the passes themselves; for that there is `outpace bench`.

`--texts FILE` keeps the decoded texts and the profile for the next time.
"""

import argparse
import gc
import json
import time
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import asdict, dataclass
from pathlib import Path

import outpace
from outpace.control.auto import AutoControl
from outpace.control.cost import CostTable
from outpace.control.limits import OFF
from outpace.control.profile import Load, Shape, profile
from outpace.core.sampling import Sampling
from outpace.core.score import Rows, Scores, Traits
from outpace.drafters.registry import Context, Loaded, make
from outpace.engine.engine import Engine

PROMPTS = Path(outpace.__file__).parent / "bench" / "prompts.jsonl"
_PROFILE_S, _N_TOKENS, _END = 3.0, 160, 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """Prompts with the texts that follow them, and what passes of the model take."""

    texts: list[tuple[list[int], list[int]]]
    shape: Shape
    vocab_size: int


def record(model_name: str) -> Recording:
    """Decode the project's prompts, all together, and profile the model."""
    prompts = [json.loads(line)["prompt"] for line in PROMPTS.read_text("utf-8").splitlines()]
    with outpace.load(model_name, drafter="none") as model:
        shape = profile(model.runtime, _PROFILE_S, time.perf_counter)
        engine = model.engine_with("none")
        ids = [model.encode(prompt) for prompt in prompts]
        sampling = Sampling(max_tokens=_N_TOKENS)
        sequences = [engine.add(prompt, sampling, seed=0) for prompt in ids]
        while not engine.idle:
            engine.step()
        texts = [(list(p), list(s.output)) for p, s in zip(ids, sequences, strict=True)]
        return Recording(texts=texts, shape=shape, vocab_size=model.runtime.traits.vocab_size)


class Replayed:
    """A runtime that knows its texts; a pass moves its clock by what such a pass takes."""

    def __init__(self, recording: Recording) -> None:
        self.traits = Traits(
            name="replayed", vocab_size=recording.vocab_size, context_tokens=1 << 20,
            eos_ids=frozenset(), trees=True, row_invariant=True, digest="replayed",
        )  # fmt: skip
        self.texts: dict[int, list[int]] = {}
        self.in_passes_s = 0.0
        self._shape = recording.shape
        self._kept: dict[int, int] = {}
        self._ahead_s = 0.0

    def clock(self) -> float:
        """CPU seconds of this thread, and the seconds of all passes."""
        return time.thread_time() + self._ahead_s

    def open(self, key: int, tokens: Seq[int]) -> int:  # noqa: ARG002 - nothing is known before
        self._kept[key] = 0
        return 0

    def reserve(self, key: int, n_rows: int) -> None:
        """There is room for everything."""

    def extend(self, batch: Seq[Rows]) -> list[Scores]:
        began = time.thread_time()
        scores = [self._score(rows) for rows in batch]
        n = [len(rows.tokens) for rows in batch]
        at = [self._kept[rows.key] for rows in batch]
        load = Load(
            rows=sum(n), sequences=len(batch), keys=sum(at),
            row_keys=sum(a * b for a, b in zip(n, at, strict=True)),
        )  # fmt: skip
        seconds = self._shape.seconds(load)
        self.in_passes_s += seconds
        self._ahead_s += seconds - (time.thread_time() - began)
        return scores

    def keep(self, key: int, rows: Seq[int]) -> None:
        self._kept[key] += len(rows)

    def close(self, key: int) -> None:
        self._kept.pop(key, None)

    def _score(self, rows: Rows) -> Scores:
        text, base = self.texts[rows.key], self._kept[rows.key]
        place: list[int] = []
        right: list[bool] = []
        for token, parent in zip(rows.tokens, rows.parents, strict=True):
            at = base if parent < 0 else place[parent] + 1
            place.append(at)
            above = parent < 0 or right[parent]
            right.append(above and at < len(text) and text[at] == token)
        after = [place[row] + 1 for row in rows.asked]
        best = [
            text[at] if right[row] and at < len(text) else _END
            for row, at in zip(rows.asked, after, strict=True)
        ]
        return Scores(best_A=best)


def run(arm: str, n_streams: int, recording: Recording) -> dict[str, float]:
    """All texts, so many at a time."""
    runtime = Replayed(recording)
    drafter = make(arm, Context(target=runtime.traits, vocabulary=(), load=_no_model))
    control = AutoControl(CostTable(recording.shape), drafter=arm, clock=runtime.clock)
    engine = Engine(
        runtime, drafter, limits=OFF if arm == "none" else None,
        control=None if arm == "none" else control, clock=runtime.clock,
    )  # fmt: skip
    waiting, tokens, rounds, guesses, kept = list(recording.texts)[::-1], 0, 0, 0, 0
    began = runtime.clock()
    while waiting or not engine.idle:
        while waiting and engine.n_running + engine.n_waiting < n_streams:
            prompt, text = waiting.pop()
            sampling = Sampling(max_tokens=len(text), ignore_eos=True)
            sequence = engine.add(prompt, sampling, seed=0)
            runtime.texts[sequence.key] = [*prompt, *text]
        for done in engine.step():
            tokens += len(done.emitted)
            guesses += len(done.draft)
            kept += done.n_kept
        rounds += 1
    seconds = runtime.clock() - began
    return {
        "tokens_per_s": tokens / seconds,
        "python_ms_a_round": 1e3 * (seconds - runtime.in_passes_s) / rounds,
        "guesses_a_round": guesses / rounds,
        "kept_a_round": kept / rounds,
    }


def _no_model(ref: str) -> Loaded:
    raise SystemExit(f"a drafter that needs the model {ref} cannot be replayed")


def recording_of(args: argparse.Namespace) -> Recording:
    """From the file, if it is there; else made, and kept there."""
    path: Path | None = args.texts
    if path is not None and path.exists():
        saved = json.loads(path.read_text("utf-8"))
        shape = Shape(**{**saved["shape"], "by_rows": tuple(saved["shape"]["by_rows"])})
        texts = [(prompt, text) for prompt, text in saved["texts"]]
        return Recording(texts=texts, shape=shape, vocab_size=saved["vocab_size"])
    recording = record(args.model)
    if path is not None:
        path.write_text(json.dumps(asdict(recording)), "utf-8")
    return recording


def main(argv: Seq[str] | None = None, tell: Callable[[str], None] = print) -> None:
    """Print a line per arm and number of streams, arms taking turns; the best of each counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--streams", default="1,4,8,16,32")
    parser.add_argument("--arm", default="auto")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--texts", type=Path)
    args = parser.parse_args(argv)
    recording = recording_of(args)
    gc.collect()
    gc.freeze()
    for n_streams in (int(n) for n in args.streams.split(",")):
        best: dict[str, dict[str, float]] = {}
        for _ in range(args.repeats):
            for arm in ("none", args.arm):
                found = run(arm, n_streams, recording)
                if arm not in best or found["tokens_per_s"] > best[arm]["tokens_per_s"]:
                    best[arm] = found
        ratio = best[args.arm]["tokens_per_s"] / best["none"]["tokens_per_s"]
        for arm, found in best.items():
            told = ", ".join(f"{name} {value:.3g}" for name, value in found.items())
            tell(f"{n_streams} streams, {arm}: {told}")
        tell(f"{n_streams} streams: {args.arm} / none {ratio:.3f}")


if __name__ == "__main__":
    main()
