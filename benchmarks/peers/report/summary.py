"""Records to results: per arm, per pair of arms, per category, and whether texts agree."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import asdict
from hashlib import sha256
from itertools import takewhile

from benchmarks.peers.arms import AUTO, PLAIN, PLAIN_Q8, Arm
from benchmarks.peers.records import Shot, Unit
from benchmarks.peers.report.estimates import Estimate, geometric_mean, median, ratio

Rates = dict[str, dict[str, float]]


def decode_rates(units: Seq[Unit], category: str | None = None) -> Rates:
    """Tokens a second after the first token: by arm, by prompt, blocks taken together."""
    tokens: dict[tuple[str, str], int] = defaultdict(int)
    seconds: dict[tuple[str, str], float] = defaultdict(float)
    for unit, shot in _shots(units, "answer"):
        if category in (None, unit.category):
            tokens[shot.arm, unit.item] += shot.n_tokens - shot.n_first
            seconds[shot.arm, unit.item] += shot.total_s - shot.first_s
    rates: Rates = defaultdict(dict)
    for (arm, item), n in tokens.items():
        if n > 0 and seconds[arm, item] > 0:
            rates[arm][item] = n / seconds[arm, item]
    return rates


def _shots(units: Seq[Unit], kind: str) -> Iterator[tuple[Unit, Shot]]:
    for unit in units:
        if unit.kind == kind:
            for shot in unit.shots:
                yield unit, shot


def summarize(units: Seq[Unit], arms: Seq[Arm]) -> dict[str, object]:
    """Everything the page prints, and every single run it comes from."""
    rates = decode_rates(units)
    categories = sorted({u.category for u in units if u.kind == "answer"})
    return {
        "per_arm": {arm.name: _arm(units, arm, rates) for arm in arms},
        "comparisons": {**comparisons(rates, arms), **_prefill_comparison(units, arms)},
        "categories": {
            name: {
                "n": len({u.item for u in units if u.category == name}),
                "per_arm": {a: _out(median(list(r.values()))) for a, r in in_it.items()},
                "comparisons": comparisons(in_it, arms),
            }
            for name in categories
            for in_it in [decode_rates(units, name)]
        },
        "same_text": same_text(units, arms),
        "foreign_cpu": _foreign(units),
        "runs": list(_runs(units)),
    }


def _arm(units: Seq[Unit], arm: Arm, rates: Rates) -> dict[str, object]:
    mine = [(u, s) for u, s in _shots(units, "answer") if s.arm == arm.name]
    reads = [u.n_prompt / s.first_s for u, s in _shots(units, "prefill") if s.arm == arm.name]
    streams = [s.n_tokens / s.total_s for _, s in _shots(units, "streams") if s.arm == arm.name]
    return {
        "decode_tokens_per_s": _out(median(list(rates.get(arm.name, {}).values()))),
        "first_token_s": _out(
            median([s.first_s for u, s in mine if u.block == 0 and not u.repeated])
        ),
        "prefill_tokens_per_s": _out(median(reads)),
        "streams_tokens_per_s": _out(median(streams)),
        "n_answers": len(mine),
        "n_tokens": sum(s.n_tokens for _, s in mine),
    }


def _out(estimate: Estimate | None) -> dict[str, float | int | None] | None:
    if estimate is None:
        return None
    return {k: v if v is None or k == "n" else round(v, 4) for k, v in asdict(estimate).items()}


def _best(rates: Rates, arms: Seq[Arm], among: Callable[[Arm], bool]) -> str | None:
    known = [a.name for a in arms if rates.get(a.name) and among(a)]
    return max(known, key=lambda name: geometric_mean(list(rates[name].values())), default=None)


def comparisons(rates: Rates, arms: Seq[Arm]) -> dict[str, object]:
    """outpace against the best of the peers, chosen by these same measurements (which favours
    them), and each arm's speculation against its own plain decoding."""
    plain = _best(rates, arms, lambda a: a.peer != "outpace" and not a.speculate)
    any_mode = _best(rates, arms, lambda a: a.peer != "outpace")
    pairs = {
        "plain_vs_best_peer_plain": (PLAIN, plain),
        "auto_vs_best_peer": (AUTO, any_mode),
        "q8_plain_vs_default": (PLAIN_Q8, PLAIN),
    }
    for fast, slow in _own_pairs(arms):
        pairs[f"{fast.name}_vs_own_plain"] = (fast.name, slow.name)
    return {
        name: {"arm": arm, "other": other, "ratio": _out(ratio(rates[arm], rates[other]))}
        for name, (arm, other) in pairs.items()
        if other is not None and rates.get(arm) and rates.get(other)
    }


def _prefill_comparison(units: Seq[Unit], arms: Seq[Arm]) -> dict[str, object]:
    """outpace's reading against the peer that reads fastest, text by text."""
    rates: Rates = defaultdict(dict)
    for unit, shot in _shots(units, "prefill"):
        rates[shot.arm][unit.item] = unit.n_prompt / shot.first_s
    best = _best(rates, arms, lambda a: a.peer != "outpace")
    if best is None or not rates[PLAIN]:
        return {}
    found = {"arm": PLAIN, "other": best, "ratio": _out(ratio(rates[PLAIN], rates[best]))}
    return {"prefill_vs_best_peer": found}


def _own_pairs(arms: Seq[Arm]) -> Iterator[tuple[Arm, Arm]]:
    for fast in arms:
        for slow in arms:
            same = (fast.peer, fast.weights) == (slow.peer, slow.weights)
            if same and fast.speculate and not slow.speculate:
                yield fast, slow


def same_text(units: Seq[Unit], arms: Seq[Arm]) -> dict[str, object]:
    """Answers whose token ids are those of the peer's own plain decoding, and of outpace's."""
    by_arm: dict[str, dict[tuple[int, str], tuple[int, ...]]] = defaultdict(dict)
    for unit, shot in _shots(units, "answer"):
        by_arm[shot.arm][unit.block, unit.item] = shot.ids
    own = {fast.name: slow.name for fast, slow in _own_pairs(arms)}

    def agree(arm: str, other: str | None) -> dict[str, object] | None:
        both = [k for k in by_arm[arm] if other and k in by_arm[other]]
        if not both or other is None:
            return None
        differ = sorted(
            {item for b, item in both if by_arm[arm][b, item] != by_arm[other][b, item]}
        )
        n_same = sum(by_arm[arm][k] == by_arm[other][k] for k in both)
        return {"other": other, "n": len(both), "same": n_same, "differ": differ}

    return {
        arm.name: {
            "own_plain": agree(arm.name, own.get(arm.name)),
            "outpace_plain": agree(arm.name, PLAIN) if arm.name != PLAIN else None,
        }
        for arm in arms
        if by_arm[arm.name]
    }


def _foreign(units: Seq[Unit]) -> dict[str, float | None]:
    shares = sorted(shot.foreign for unit in units for shot in unit.shots)
    repeated = sum(unit.repeated for unit in units)
    if not shares:
        return {"median": None, "p95": None, "max": None, "units_repeated": repeated}
    at_95 = shares[min(len(shares) - 1, int(0.95 * len(shares)))]
    middle = shares[len(shares) // 2]
    return {"median": middle, "p95": at_95, "max": shares[-1], "units_repeated": repeated}


def _runs(units: Seq[Unit]) -> Iterator[dict[str, object]]:
    """Every run in the order it happened; texts as a digest and how far they follow outpace's."""
    for unit in units:
        plain = next((s.ids for s in unit.shots if s.arm == PLAIN), None)
        for shot in unit.shots:
            yield {
                "kind": unit.kind, "block": unit.block, "item": unit.item,
                "category": unit.category, "arm": shot.arm, "n_prompt": unit.n_prompt,
                "n_tokens": shot.n_tokens, "n_first": shot.n_first,
                "first_s": round(shot.first_s, 6), "total_s": round(shot.total_s, 6),
                "wall_s": round(shot.wall_s, 6), "foreign": shot.foreign,
                "text": sha256(str(shot.ids).encode()).hexdigest()[:12],
                "follows_outpace_plain": None if plain is None else _common(plain, shot.ids),
            }  # fmt: skip


def _common(a: Seq[int], b: Seq[int]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))
