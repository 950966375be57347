"""The engine: owns the sequences, runs rounds, and is the only one to change either."""

import time
from collections.abc import Sequence as Seq

from outpace.core.draft import Drafter, Seen
from outpace.core.law import TokenMask
from outpace.core.repeat import Clock, Round, Turn, one_round
from outpace.core.sampling import Sampling
from outpace.core.score import Runtime
from outpace.core.sequence import Sequence, StopScan

# Tokens read per pass while a prompt is caught up with.
PREFILL_CHUNK_TOKENS = 512


class Engine:
    """Runs requests one round at a time.

    max_depth, max_nodes: most guesses per round and sequence.
    """

    def __init__(
        self,
        runtime: Runtime,
        drafter: Drafter,
        *,
        max_depth: int,
        max_nodes: int,
        traced: bool = False,
        clock: Clock = time.perf_counter,
    ) -> None:
        self.runtime = runtime
        self.drafter = drafter
        self._max_depth = max_depth
        self._max_nodes = max_nodes
        self._traced = traced
        self._clock = clock
        self._next_key = 0

    def add(
        self,
        prompt: Seq[int],
        sampling: Sampling,
        *,
        seed: int,
        stops: StopScan | None = None,
        mask: TokenMask | None = None,
    ) -> Sequence:
        """Begin a request; it advances only when stepped.

        seed: used for the coins when the sampling has none.

        Raises:
            RequestError: the request cannot be run; nothing was kept of it.
        """
        sequence = Sequence(
            key=self._next_key,
            prompt=prompt,
            sampling=sampling,
            seed=seed,
            traits=self.runtime.traits,
            stops=stops,
            mask=mask,
        )
        self._next_key += 1
        sequence.n_computed = self.runtime.open(sequence.key, sequence.tokens)
        self.drafter.observe([Seen(key=sequence.key, start=0, tokens=tuple(prompt))])
        return sequence

    def step(self, sequences: Seq[Sequence]) -> list[Round]:
        """One round for the given unfinished sequences; finished ones are closed."""
        rounds = one_round(
            self.runtime, self.drafter, [self._turn(s) for s in sequences], self._clock
        )
        for sequence in sequences:
            if sequence.finish is not None:
                self.close(sequence)
        return rounds

    def close(self, sequence: Sequence) -> None:
        """End a sequence, finished or not, and free what it held."""
        if sequence.finish is None:
            sequence.finish = "abort"
        self.runtime.close(sequence.key)
        self.drafter.forget(sequence.key)

    def _turn(self, sequence: Sequence) -> Turn:
        catch_up = min(sequence.behind, PREFILL_CHUNK_TOKENS)
        return Turn(
            sequence=sequence,
            catch_up=catch_up,
            max_nodes=self._max_nodes,
            max_depth=self._max_depth,
            reason="fixed depth",
            traced=self._traced,
        )
