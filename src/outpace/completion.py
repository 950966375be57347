"""What a generation gave and what it cost: values only, built from rounds."""

from dataclasses import dataclass, field

from outpace.core.repeat import Round
from outpace.core.sequence import Finish


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds:
    """Where the time went. `other` is what no stage claims: text, bookkeeping, waiting."""

    load: float
    prefill: float
    draft: float
    score: float
    accept: float
    resample: float
    other: float
    total: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Counts and times of one generation.

    rounds: passes that gave tokens. drafted, kept: guesses. seconds.total covers the generation
    and the load.
    """

    rounds: int
    drafted: int
    kept: int
    completion_tokens: int
    tokens_after_first_round: int
    decode_seconds: float
    seconds: Seconds

    @property
    def acceptance_length(self) -> float:
        """Tokens per pass: 1 (the target's own) + kept guesses per round; 0 before any round."""
        return 1 + self.kept / self.rounds if self.rounds else 0.0

    @property
    def tokens_per_s(self) -> float:
        """Speed of decoding: tokens after the first round over the seconds after it.

        The first round also reads the prompt. A text of one round falls back to all of the
        generation's time.
        """
        if self.tokens_after_first_round and self.decode_seconds > 0:
            return self.tokens_after_first_round / self.decode_seconds
        whole = self.seconds.total - self.seconds.load
        return self.completion_tokens / whole if whole > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A finished (or interrupted) generation.

    promise: what speculation left unchanged: "same text", "same law", or "same text up to
    measured ties" on a runtime whose rows depend on what shares their pass.
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: Finish
    prompt_tokens: int
    model: str
    runtime: str
    drafter: str
    rule: str
    seed: int
    promise: str
    stats: Stats

    @property
    def completion_tokens(self) -> int:
        """Tokens of the answer, its end token included."""
        return len(self.token_ids)


@dataclass(slots=True)
class Meter:
    """Adds up rounds as they happen.

    lengths: (guesses on the draft's longest path, guesses kept) -> rounds; what acceptance per
    position is computed from.
    """

    load_s: float = 0.0
    rounds: int = 0
    drafted: int = 0
    kept: int = 0
    tokens: int = 0
    tokens_later: int = 0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    stages: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("draft", "score", "accept", "resample"), 0.0)
    )
    rules: set[str] = field(default_factory=set)
    lengths: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, done: Round) -> None:
        """Count one round."""
        wall_s = done.seconds.total
        first = self.rounds == 0
        self.tokens += len(done.emitted)
        if done.verdict is not None:
            self.rounds += 1
            self.drafted += len(done.draft)
            self.kept += done.n_kept
            pair = done.draft.depth, done.n_kept
            self.lengths[pair] = self.lengths.get(pair, 0) + 1
            if len(done.draft):
                self.rules.add(done.verdict.rule)
        if first:
            self.prefill_s += wall_s
            return
        self.tokens_later += len(done.emitted)
        self.decode_s += wall_s
        for stage in self.stages:
            self.stages[stage] += getattr(done.seconds, stage)

    def stats(self, total_s: float) -> Stats:
        """The counts so far; total_s is the generation's wall time, loading apart."""
        other = total_s - self.prefill_s - sum(self.stages.values())
        return Stats(
            rounds=self.rounds,
            drafted=self.drafted,
            kept=self.kept,
            completion_tokens=self.tokens,
            tokens_after_first_round=self.tokens_later,
            decode_seconds=self.decode_s,
            seconds=Seconds(
                load=self.load_s,
                prefill=self.prefill_s,
                draft=self.stages["draft"],
                score=self.stages["score"],
                accept=self.stages["accept"],
                resample=self.stages["resample"],
                other=max(0.0, other),
                total=total_s + self.load_s,
            ),
        )

    def rule(self) -> str:
        """The acceptance rule used; "none" when nothing was guessed."""
        return "+".join(sorted(self.rules)) or "none"


def promise(*, same_text: bool, row_invariant: bool) -> str:
    """The sentence of exactness that holds for a request on a runtime."""
    if not same_text:
        return "same law"
    return "same text" if row_invariant else "same text up to measured ties"
