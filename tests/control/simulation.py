"""A world without a model: acceptance and costs as given, a control in the loop, seconds counted.

Whether the guess at a position of a text is right depends on that position alone, so that every
control meets the same text. Rounds are real `Round`s; only their verdicts and seconds are made up.
"""

import random
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from functools import cache

from outpace.control.auto import AutoControl
from outpace.control.cost import CostTable
from outpace.control.limits import AutoConfig, Control, FixedControl, Limits, View
from outpace.control.profile import shape_of
from outpace.core.accept import Verdict
from outpace.core.draft import NO_GUESS, Draft, Style
from outpace.core.repeat import Round, StageSeconds, Turn
from outpace.core.sampling import Sampling
from outpace.core.score import Traits
from outpace.core.sequence import Sequence
from outpace.events import ControlSwitched

TRAITS = Traits(
    name="simulated", vocab_size=64, context_tokens=1_000_000, eos_ids=frozenset(), trees=True,
    row_invariant=True, digest="simulated",
)  # fmt: skip
SAMPLING: dict[Style, Sampling] = {
    "chosen": Sampling(temperature=0.0),
    "coupled": Sampling(temperature=1.0, seed=1),
    "drawn": Sampling(temperature=1.0),
}

# (sequence, position in its answer) -> chance that a guess there is right.
Acceptance = Callable[[int, int], float]
# Rows -> seconds of a pass.
PassSeconds = Callable[[int], float]


def pass_table(*known: tuple[int, float]) -> PassSeconds:
    """Linear between known row counts, and beyond the last at the last slope."""

    @cache
    def seconds(rows: int) -> float:
        i = next((i for i, (n, _) in enumerate(known) if n >= rows), len(known) - 1)
        i = max(i, 1)
        (n0, s0), (n1, s1) = known[i - 1], known[i]
        return s0 + (s1 - s0) * (rows - n0) / (n1 - n0)

    return seconds


# Seconds of passes, in units of 10 ms. `cliff` is a kernel that changes its method after 4 rows.
TABLES: dict[str, PassSeconds] = {
    "flat": pass_table((1, 0.010), (8, 0.011), (16, 0.013), (32, 0.023), (64, 0.046)),
    "torch": pass_table((1, 0.010), (4, 0.011), (8, 0.015), (16, 0.023), (32, 0.040), (64, 0.075)),
    "cliff": pass_table((1, 0.010), (4, 0.0105), (5, 0.017), (16, 0.0185), (32, 0.03), (64, 0.06)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a simulated run is like.

    claim: what the drafter says of a guess whose chance is given; None = it says nothing.
    noise: standard deviation of the relative error of measured pass seconds. offers: share of
    rounds in which the drafter finds anything.
    """

    pass_s: PassSeconds
    acceptance: Acceptance
    n_sequences: int = 1
    ask_s: float = 0.00002
    depth_s: float = 0.0
    guess_s: float = 0.0
    style: Style = "chosen"
    claim: Callable[[float], float] | None = None
    noise: float = 0.02
    offers: float = 1.0
    seed: int = 0


@dataclass(slots=True)
class Report:
    """What came of a run: by round, the depth granted to and the tokens of every sequence."""

    tokens: int = 0
    seconds: float = 0.0
    depths: list[list[int]] = field(default_factory=list)
    emitted: list[list[int]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    reasons: set[str] = field(default_factory=set)

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds


class Simulation:
    """Sequences that never end, a control, and the seconds their rounds take."""

    def __init__(self, world: World, control: Control) -> None:
        self.world, self.control = world, control
        self.report = Report()
        self.now_s = 0.0
        self._noise = random.Random(world.seed + 1)
        self._keys = list(range(world.n_sequences))
        self._positions = dict.fromkeys(self._keys, 0)
        self._sequences = {key: sequence(key, world.style) for key in self._keys}
        self._coins: dict[int, list[float]] = {}

    def run(self, *, tokens: int = 0, rounds: int = 0) -> Report:
        """Until so many tokens a sequence on average, or so many rounds."""
        report, n = self.report, len(self._keys)
        while (report.tokens < tokens * n) if tokens else (len(report.depths) < rounds):
            self.step()
        return report

    def step(self) -> list[Round]:
        world = self.world
        views = [
            View(key=key, style=world.style, catch_up=1, context_tokens=self._positions[key] + 16)
            for key in self._keys
        ]
        limits = self.control.decide(views)
        drafts = [self._draft(k, limit) for k, limit in zip(self._keys, limits, strict=True)]
        n_asked = sum(limit.max_nodes > 0 for limit in limits)
        draft_s = n_asked * world.ask_s + world.depth_s * max(d.depth for d in drafts)
        score_s = world.pass_s(len(drafts) + sum(map(len, drafts)))
        spent = draft_s + score_s + world.guess_s * sum(map(len, drafts))
        measured = score_s * max(1 + self._noise.gauss(0, world.noise), 0.5)
        rounds = [
            self._finish(key, limit, draft, (draft_s, measured))
            for key, limit, draft in zip(self._keys, limits, drafts, strict=True)
        ]
        self.now_s += spent
        self.control.learn(rounds)
        report = self.report
        report.seconds += spent
        report.tokens += sum(len(r.emitted) for r in rounds)
        report.depths.append([len(draft) for draft in drafts])
        report.emitted.append([len(r.emitted) for r in rounds])
        report.times.append(self.now_s)
        report.reasons.update(limit.reason for limit in limits)
        return rounds

    def _draft(self, key: int, limit: Limits) -> Draft:
        world, at = self.world, self._positions[key]
        n = min(limit.max_nodes, limit.max_depth)
        if n and world.offers < 1 and self._coin(key + 100_000, at) >= world.offers:
            return NO_GUESS
        if world.claim is None or not n:
            return chain_of(n, 0.0)
        claimed = world.claim(world.acceptance(key, at))
        while n and claimed**n < limit.worth:
            n -= 1
        return chain_of(n, claimed)

    def _finish(self, key: int, limit: Limits, draft: Draft, seconds: tuple[float, float]) -> Round:
        world, at, kept = self.world, self._positions[key], 0
        while kept < len(draft) and self._right(key, at + kept):
            kept += 1
        self._positions[key] = at + kept + 1
        return Round(
            turn=Turn(
                sequence=self._sequences[key],
                catch_up=1,
                max_nodes=limit.max_nodes,
                max_depth=limit.max_depth,
                worth=limit.worth,
                reason=limit.reason,
            ),
            start=at + 16,
            n_rows=1 + len(draft),
            draft=draft,
            verdict=Verdict(rule="match", path=tuple(range(kept)), row=kept, weights_V=None),
            next_token=1,
            emitted=(1,) * (kept + 1),
            finish=None,
            seconds=StageSeconds(
                draft=seconds[0], score=seconds[1], accept=world.guess_s * len(draft),
                resample=0.0, repeat=0.0,
            ),
        )  # fmt: skip

    def _right(self, key: int, position: int) -> bool:
        return self._coin(key, position) < self.world.acceptance(key, position)

    def _coin(self, key: int, position: int) -> float:
        coins = self._coins.setdefault(key, [])
        if len(coins) <= position:
            generator = random.Random(hash((self.world.seed, key, len(coins))))
            coins.extend(generator.random() for _ in range(position + 1000 - len(coins)))
        return coins[position]


def sequence(key: int, style: Style) -> Sequence:
    """A sequence of that style."""
    return Sequence(key=key, prompt=[1], sampling=SAMPLING[style], seed=0, traits=TRAITS)


@cache
def chain_of(n: int, claimed: float) -> Draft:
    """A chain of n guesses, each claimed to be right so often; 0 = nothing is claimed."""
    if not n:
        return NO_GUESS
    return Draft(
        tokens=(1,) * n,
        parents=tuple(range(-1, n - 1)),
        sources=("simulated",) * n,
        chances=tuple(claimed ** (i + 1) for i in range(n)) if claimed else (),
    )


def auto(
    world: World, config: AutoConfig | None = None, *, profiled: bool = True
) -> tuple[Simulation, list[ControlSwitched]]:
    """A simulation under AutoControl, and the list its switches go to."""
    switched: list[ControlSwitched] = []
    shape = shape_of({n: world.pass_s(n) for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)})
    control = AutoControl(
        CostTable(shape) if profiled else None,
        config,
        drafter="simulated",
        clock=lambda: simulation.now_s,
    )
    control.report_to(switched.append)
    simulation = Simulation(world, control)
    return simulation, switched


def fixed(world: World, depth: int, tokens: int) -> Report:
    """The run under one depth; 0 = plain decoding."""
    control = FixedControl(Limits(max_nodes=depth, max_depth=depth))
    return Simulation(world, control).run(tokens=tokens)


def best_fixed(world: World, tokens: int, depths: Seq[int]) -> tuple[int, float]:
    """The best of these depths in hindsight, and its rate."""
    rates = {depth: fixed(world, depth, tokens).rate for depth in depths}
    best = max(rates, key=lambda depth: rates[depth])
    return best, rates[best]
