"""outpace, through its public API: ids in, text streamed out, ids back.

Its times include turning ids into text, which the peers' do not.
"""

import logging
import time
from importlib.metadata import version

from benchmarks.peers.protocol import Answer, Facts, Setup, Throughput, Watch, serve

import outpace
from outpace.build import RuntimeChoice
from outpace.core.sampling import Sampling
from outpace.drafters.registry import make


class OutpacePeer:
    """The native runtime with the default drafter, or none."""

    def __init__(self, setup: Setup) -> None:
        said = _Said()
        logging.getLogger("outpace.build").addHandler(said)
        logging.getLogger("outpace.build").setLevel(logging.INFO)
        self._drafter = "auto" if setup.speculate else "none"
        choice = RuntimeChoice(
            runtime="native", weights=setup.weights or "auto", threads=setup.threads
        )
        self._model = outpace.load(setup.model, drafter=self._drafter, choice=choice)
        self._about = "; ".join(said.lines)

    def facts(self) -> Facts:
        """The runtime describes its own weights."""
        return {
            "versions": {name: version(name) for name in ("outpace", "torch")},
            "weights": self._about,
            "speculation": self._model.drafter.name,
        }

    def generate(self, ids: list[int], n: int, *, stop_at_eos: bool) -> Answer:
        """Streams, as a user would."""
        sampling = Sampling(temperature=0.0, max_tokens=n, ignore_eos=not stop_at_eos)
        watch = Watch()
        generation = self._model.start(ids, sampling)
        output = generation.sequence.output
        for _ in generation:
            watch.saw(len(output))
        watch.saw(len(output))
        return watch.answer(output)

    def batch(self, prompts: list[list[int]], n: int) -> Throughput:
        """All of them open at once; the engine shares its passes among them."""
        sampling = Sampling(temperature=0.0, max_tokens=n, ignore_eos=True)
        began = time.perf_counter()
        opened = [self._model.start(ids, sampling) for ids in prompts]
        for generation in opened:
            for _ in generation:
                pass
        total_s = time.perf_counter() - began
        n_tokens = sum(len(generation.sequence.output) for generation in opened)
        return Throughput(n_tokens=n_tokens, total_s=total_s)

    def forget(self) -> None:
        """A new drafter: the same prompt comes again, and its answer must not be known."""
        self._model.engine.drafter = make(self._drafter)


class _Said(logging.Handler):
    """Keeps what loading had to say."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


if __name__ == "__main__":
    serve(OutpacePeer)
