"""What was counted since the start: by the engine's thread, by the routes, and read by anybody.

Latencies of speculation have a trap. A round brings several tokens at once, so "time between
chunks" grows while every token comes sooner. `inter_token_latency` here shares the time of a chunk
among its tokens: its mean is the time per token, with speculation or without, and its count the
number of tokens. The raw gaps between chunks, what a reader may feel as stutter, are a histogram
of their own.
"""

import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from outpace.core.repeat import Round
from outpace.engine.stream import Stream
from outpace.events import Admitted, ControlSwitched, Event, RequestDone, RoundsDone
from outpace.server.metrics.histogram import LONG_S, SHORT_S, TOKENS, Histogram, Snapshot

STAGES: Final = ("draft", "score", "accept", "resample", "repeat")
_RECENT: Final = 512
_SWITCHES_KEPT: Final = 50
_HISTOGRAMS: Final = {
    "time_to_first_token_seconds": LONG_S,
    "inter_token_latency_seconds": SHORT_S,
    "request_time_per_output_token_seconds": SHORT_S,
    "e2e_request_latency_seconds": LONG_S,
    "request_queue_time_seconds": LONG_S,
    "request_inference_time_seconds": LONG_S,
    "request_prefill_time_seconds": LONG_S,
    "request_decode_time_seconds": LONG_S,
    "request_prompt_tokens": TOKENS,
    "request_generation_tokens": TOKENS,
    "request_params_n": TOKENS,
    "request_params_max_tokens": TOKENS,
    "iteration_tokens_total": TOKENS,
    "inter_chunk_seconds": SHORT_S,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """One finished answer, in seconds; None where it had too few tokens to tell."""

    first_token_s: float
    per_token_s: float | None
    whole_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A copy of every number. Keys are label values; what never happened is not there.

    kept_at, offered_at: guesses by position. by_source: (guesses, kept) of each drafter.
    """

    totals: Mapping[str, int]
    stages: Mapping[str, float]
    finished: Mapping[str, int]
    kept_at: Mapping[int, int]
    offered_at: Mapping[int, int]
    by_source: Mapping[str, tuple[int, int]]
    switches: Mapping[tuple[str, str], int]
    http: Mapping[tuple[str, int], int]
    histograms: Mapping[str, Snapshot]


@dataclass(slots=True)
class _State:
    totals: Counter[str] = field(default_factory=Counter)
    stages: dict[str, float] = field(default_factory=dict)
    finished: Counter[str] = field(default_factory=Counter)
    kept_at: Counter[int] = field(default_factory=Counter)
    offered_at: Counter[int] = field(default_factory=Counter)
    guessed: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    switches: Counter[tuple[str, str]] = field(default_factory=Counter)
    http: Counter[tuple[str, int]] = field(default_factory=Counter)


class Meters:
    """Counts. `listen` is the engine's thread's; everything else is safe from any."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._state = _State()
        self._histograms = {name: Histogram(bounds) for name, bounds in _HISTOGRAMS.items()}
        self._latencies: deque[Latency] = deque(maxlen=_RECENT)
        self._switches: deque[ControlSwitched] = deque(maxlen=_SWITCHES_KEPT)
        self.last_pass_s: float | None = None
        """When the last pass ended; None = there was none."""

    def listen(self, event: Event) -> None:
        """Count one event of the engine."""
        with self._lock:
            s = self._state
            match event:
                case RoundsDone():
                    self._passed(event)
                case Admitted(sequence=sequence, n_known=n_known):
                    s.totals["prompts_read"] += sequence.n_prompt
                    s.totals["prompts_known"] += n_known
                case RequestDone(sequence=sequence):
                    s.finished[sequence.finish or "abort"] += 1
                    s.totals["prompt_tokens"] += sequence.n_prompt
                case ControlSwitched():
                    s.switches[event.drafter, event.state] += 1
                    self._switches.append(event)
                case _:
                    s.totals["preempted"] += 1

    def finished(self, stream: Stream, n: int) -> None:
        """One answer ended, well or not."""
        t = stream.times
        if t.admitted_s is None or t.ended_s is None or not t.chunks_s:
            return
        tokens = sum(t.chunk_tokens)
        first_s, last_s = t.chunks_s[0], t.chunks_s[-1]
        later = tokens - t.chunk_tokens[0]
        per_token_s = (last_s - first_s) / later if later else None
        limit = stream.sequence.sampling.max_tokens
        with self._lock:
            see = self._histograms
            see["time_to_first_token_seconds"].observe(first_s - t.submitted_s)
            see["e2e_request_latency_seconds"].observe(t.ended_s - t.submitted_s)
            see["request_queue_time_seconds"].observe(t.admitted_s - t.submitted_s)
            see["request_inference_time_seconds"].observe(t.ended_s - t.admitted_s)
            see["request_prefill_time_seconds"].observe(first_s - t.admitted_s)
            see["request_decode_time_seconds"].observe(last_s - first_s)
            see["request_prompt_tokens"].observe(stream.sequence.n_prompt)
            see["request_generation_tokens"].observe(tokens)
            see["request_params_n"].observe(n)
            if limit is not None:
                see["request_params_max_tokens"].observe(limit)
            if per_token_s is not None:
                see["request_time_per_output_token_seconds"].observe(per_token_s)
            for i in range(1, len(t.chunks_s)):
                gap_s, count = t.chunks_s[i] - t.chunks_s[i - 1], t.chunk_tokens[i]
                see["inter_chunk_seconds"].observe(gap_s)
                see["inter_token_latency_seconds"].observe(gap_s / count, times=count)
            self._latencies.append(
                Latency(
                    first_token_s=first_s - t.submitted_s,
                    per_token_s=per_token_s,
                    whole_s=t.ended_s - t.submitted_s,
                )
            )

    def answered(self, route: str, status: int) -> None:
        """One HTTP response was sent."""
        with self._lock:
            self._state.http[route, status] += 1

    def recent(self) -> list[Latency]:
        """Latencies of the last answers, oldest first."""
        with self._lock:
            return list(self._latencies)

    def recent_switches(self) -> list[ControlSwitched]:
        """The control's last decisions to stop or resume guessing."""
        with self._lock:
            return list(self._switches)

    def counted(self, *, histograms: bool = True) -> Counted:
        """All numbers at one moment. histograms: those too."""
        with self._lock:
            s = self._state
            return Counted(
                totals=dict(s.totals),
                stages=dict(s.stages),
                finished=dict(s.finished),
                kept_at=dict(s.kept_at),
                offered_at=dict(s.offered_at),
                by_source={name: (n, s.kept[name]) for name, n in s.guessed.items()},
                switches=dict(s.switches),
                http=dict(s.http),
                histograms={
                    name: h.snapshot() for name, h in self._histograms.items() if histograms
                },
            )

    def _passed(self, event: RoundsDone) -> None:
        s, rounds = self._state, event.rounds
        self.last_pass_s = self._clock()
        n_emitted = 0
        for index, done in enumerate(rounds):
            n_emitted += len(done.emitted)
            s.totals["rows"] += done.n_rows
            if done.verdict is not None:
                s.totals["rounds"] += 1
            if len(done.draft):
                self._guessed(done)
            for stage in STAGES:
                # Drafting and scoring are the whole pass's: every round tells the same seconds.
                if index == 0 or stage not in ("draft", "score"):
                    seconds = getattr(done.seconds, stage)
                    s.stages[stage] = s.stages.get(stage, 0.0) + seconds
        s.totals["passes"] += 1
        s.totals["generation_tokens"] += n_emitted
        if n_emitted:
            self._histograms["iteration_tokens_total"].observe(n_emitted)

    def _guessed(self, done: Round) -> None:
        s, draft = self._state, done.draft
        path = done.verdict.path if done.verdict else ()
        s.totals["drafts"] += 1
        s.totals["draft_tokens"] += len(draft)
        s.totals["accepted_tokens"] += len(path)
        for position in range(draft.depth):
            s.offered_at[position] += 1
        for position in range(len(path)):
            s.kept_at[position] += 1
        s.guessed.update(draft.sources)
        if draft.sources:
            s.kept.update(draft.sources[node] for node in path)
