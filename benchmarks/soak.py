"""Ten minutes of everything at once: does the engine stay right, fair and the same size?

    python benchmarks/soak.py --model smollm2-135m --minutes 10
    python benchmarks/soak.py --toy --minutes 0.2

Requests come at random, of random lengths, some with seeds, some with stop strings; some of their
readers are slow and some leave in the middle. The pool is too small for the peak, so sequences
lose their memory and are computed again. Between bursts the engine falls idle and its books are
checked. Every accepted request must get its answer, and a sample of the texts is decoded again
alone and must be equal.

The summary goes to stdout as JSON: requests by how they ended, preemptions, the longest wait for
memory and the longest gap between two tokens of an answer, and how the process's memory went.
Exit status 1 = something did not hold.
"""

import argparse
import gc
import json
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from outpace.control.auto import AutoControl
from outpace.control.limits import OFF
from outpace.core.draft import Drafter
from outpace.core.sampling import Sampling
from outpace.core.score import Runtime
from outpace.drafters.registry import Context, make
from outpace.drafters.suffix.tree import Tree
from outpace.engine.engine import Engine
from outpace.engine.schedule import Budget
from outpace.engine.service import Service
from outpace.errors import CapacityError, OutpaceError
from outpace.events import Event, RoundsDone
from outpace.runtimes.toy import TableRuntime, random_table

_WAIT_S = 600.0
_KEPT_TEXTS = 12
_MORE_MB = 30.0
_NOTHING = Tree(0)


@dataclass(slots=True)
class Findings:
    """What went on, and what did not hold."""

    ends: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    longest_gap_s: float = 0.0
    longest_wait_passes: int = 0
    texts: list[tuple[list[int], Sampling, list[int]]] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)
    remembered_mb: list[float] = field(default_factory=list)
    idle_checks: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Fairness:
    """Listens for the most passes any running request sat out between two of its own."""

    def __init__(self) -> None:
        self.longest = 0
        self._n_passes = 0
        self._last: dict[int, int] = {}

    def listen(self, event: Event) -> None:
        if not isinstance(event, RoundsDone):
            return
        self._n_passes += 1
        for done in event.rounds:
            key = done.turn.sequence.key
            last = self._last.pop(key, self._n_passes)
            self.longest = max(self.longest, self._n_passes - last)
            if done.finish is None:
                self._last[key] = self._n_passes


def memory_mb() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def remembered_mb(drafter: Drafter) -> float:
    """What drafters keep of earlier answers, by their own bounded count."""
    sources = getattr(drafter, "sources", (drafter,))
    return float(sum(getattr(s, "shared", _NOTHING).n_bytes for s in sources)) / 1e6


def ask(service: Service, rng: random.Random, found: Findings, longest: int) -> None:
    """One request of a random kind, by a reader of a random kind."""
    vocab = min(service.engine.runtime.traits.vocab_size, 5000)
    prompt = [rng.randrange(3, vocab) for _ in range(rng.choice([1, 5, 30, longest]))]
    if rng.random() < 0.5:  # something to look up
        prompt = (prompt[:20] * 8)[: max(1, longest)]
    n = rng.choice([1, 4, 16, 64])
    sampling = Sampling(max_tokens=n, ignore_eos=rng.random() < 0.7)
    if rng.random() < 0.5:
        sampling = replace(sampling, temperature=0.8, seed=rng.randrange(1000))
    try:
        stream = service.submit(prompt, sampling, seed=0)
    except CapacityError as error:
        with found.lock:
            found.ends["refused"] += 1
        time.sleep(min(error.retry_after_s or 0.1, 1.0))
        return
    reader, began = rng.random(), time.monotonic()
    try:
        if reader < 0.15:  # leaves in the middle
            stream.read(_WAIT_S)
            stream.close()
        elif reader < 0.3:  # reads slowly
            for _ in stream:
                time.sleep(0.02)
        end = stream.wait(_WAIT_S)
    except OutpaceError as error:
        with found.lock:
            found.problems.append(f"{error} (after {time.monotonic() - began:.1f} s)")
        return
    gaps = [b - a for a, b in pairwise(stream.times.chunks_s)]
    with found.lock:
        found.ends[end] += 1
        found.longest_gap_s = max(found.longest_gap_s, *gaps, 0.0)
        if end != "abort" and len(found.texts) < _KEPT_TEXTS:
            found.texts.append((prompt, sampling, list(stream.sequence.output)))


def soak(engine: Engine, seconds: float, *, readers: int, seed: int, longest: int) -> Findings:
    """Bursts of readers until the time is over; idle in between."""
    found, fairness, rng = Findings(), Fairness(), random.Random(seed)
    engine.listeners.append(fairness.listen)
    until = time.monotonic() + seconds

    def read_on(own: random.Random, burst_ends: float) -> None:
        while time.monotonic() < burst_ends:
            ask(service, own, found, longest)
            time.sleep(own.expovariate(20.0))

    with Service(engine, check_when_idle=True) as service:
        while time.monotonic() < until and service.health().state == "running":
            burst_ends = min(until, time.monotonic() + rng.uniform(0.1, 0.2) * seconds)
            threads = [
                threading.Thread(target=read_on, args=(random.Random(rng.random()), burst_ends))
                for _ in range(readers)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(_WAIT_S * 2)
            found.idle_checks += 1  # the service checks its books whenever it falls idle
            gc.collect()
            found.memory_mb.append(round(memory_mb(), 1))
            found.remembered_mb.append(round(remembered_mb(engine.drafter), 1))
            show(f"{until - time.monotonic():5.0f} s left, {dict(found.ends)}")
        stats, health = service.stats(), service.health()
    found.longest_wait_passes = fairness.longest
    found.ends["preempted"] = stats.preempted
    if health.state != "running":
        found.problems.append(health.reason)
    if stats.running or stats.waiting:
        found.problems.append(f"{stats.running} running and {stats.waiting} waiting at the end")
    show(f"longest wait for memory {stats.longest_wait_s:.2f} s")
    return found


def compare_alone(engine: Engine, found: Findings) -> None:
    """The texts kept must be those of the same requests alone, without guesses."""
    for prompt, sampling, output in found.texts:
        sequence = engine.add(prompt, sampling, seed=0, limits=OFF)
        while not engine.idle:
            engine.step()
        if sequence.output != output:
            found.problems.append(f"a text differs from the one alone: {prompt[:5]} {sampling}")


def report(found: Findings) -> dict[str, object]:
    """All numbers; memory after each burst, judged from the second on, when everything is warm.

    Drafters that remember answers grow until they hold as much as they may; that is told apart.
    """
    memory = found.memory_mb[1:] or found.memory_mb
    known = found.remembered_mb[1:] or found.remembered_mb
    growth = memory[-1] - memory[0] - (known[-1] - known[0]) if memory else 0.0
    if growth > max(_MORE_MB, 0.1 * memory[0]):
        found.problems.append(f"memory grew by {growth:.0f} MB besides what drafters remember")
    return {
        "ends": dict(found.ends), "compared_alone": len(found.texts),
        "longest_gap_s": round(found.longest_gap_s, 3),
        "longest_wait_passes": found.longest_wait_passes, "idle_checks": found.idle_checks,
        "memory_mb": memory, "remembered_mb": known,
        "problems": found.problems,
    }  # fmt: skip


def show(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


def parse(argv: Seq[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--model", default="smollm2-135m")
    add("--toy", action="store_true", help="a table instead of a model")
    add("--drafter", default="auto")
    add("--minutes", type=float, default=10.0)
    add("--readers", type=int, default=24)
    add("--pool", type=int, default=1500, help="tokens that fit")
    add("--longest", type=int, default=200, help="longest prompt")
    add("--seed", type=int, default=1)
    add("--threads", type=int)
    return parser.parse_args(argv)


def toy(pool_tokens: int) -> Runtime:
    """A table that has room for so many tokens."""
    table = random_table(50, seed=3, memory=1, sharpness=3)
    return TableRuntime(table, vocab_size=50, max_tokens=pool_tokens)


def native(args: argparse.Namespace) -> Runtime:
    """A real model with a pool of its own that small; beginnings are evicted, too."""
    from outpace.models.pull import default_cache_dir
    from outpace.models.resolve import resolve
    from outpace.runtimes.native.load import Wish, load_decoder
    from outpace.runtimes.native.runtime import NativeRuntime

    files = resolve(args.model, cache_dir=default_cache_dir(os.environ))
    n_pages = args.pool // Wish().page_size
    loaded = load_decoder(files, Wish(threads=args.threads, n_pages=n_pages))
    return NativeRuntime(
        loaded.decoder,
        vocab_size=loaded.spec.vocab_size,
        context_tokens=loaded.spec.context_tokens,
        eos_ids=frozenset(),
        digest="soak",
    )


def run(args: argparse.Namespace) -> dict[str, object]:
    """Soak as the command line says."""
    runtime = toy(args.pool) if args.toy else native(args)
    drafter = make(args.drafter, Context(target=runtime.traits))
    engine = Engine(
        runtime,
        drafter,
        budget=Budget(rows=64, sequences=32, waiting=8),
        control=AutoControl(drafter=drafter.name),
    )
    found = soak(
        engine, 60 * args.minutes, readers=args.readers, seed=args.seed, longest=args.longest
    )
    compare_alone(engine, found)
    return report(found)


if __name__ == "__main__":
    document = run(parse())
    print(json.dumps(document, indent=1))
    sys.exit(1 if document["problems"] else 0)
