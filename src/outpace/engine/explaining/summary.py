"""What a request came to: its end, the funnel of its guesses, its time, and where to look next."""

from collections import Counter
from collections.abc import Sequence as Seq

from outpace.engine.explaining.brief import STAGES, Brief, Outline
from outpace.engine.explaining.words import Passage, count, duration, number, share


def request_summary(found: Outline, request: int) -> Passage:
    """One request in a few sentences."""
    rounds, end = found.of(request), found.ends.get(request)
    asked = found.requests[request]
    n_tokens = sum(brief.emitted for brief in rounds)
    giving = [brief for brief in rounds if brief.judged]
    total = sum(brief.total_s for brief in rounds)
    finish = end.finish if end else None
    sentences = [
        f"It wrote {count(n_tokens, 'token')} after {count(asked.prompt_tokens, 'token')} of "
        f"prompt in {count(len(rounds), 'round')} and {duration(total)}, and "
        + (f"ended by {finish}." if finish else "has no last line: killed, or still running."),
        *_error(end.error if end else None),
        *_funnel(giving, n_tokens),
        *_silence(giving),
        *_time(rounds, total),
        *_sources(found, request),
        *_surprise(rounds),
    ]
    return Passage(
        title=f"Request {request}",
        sentences=tuple(sentences),
        request=request,
        facts={
            "finish": finish,
            "prompt_tokens": asked.prompt_tokens,
            "completion_tokens": n_tokens,
            "rounds": len(rounds),
            "drafted": sum(brief.drafted for brief in giving),
            "kept": sum(brief.kept for brief in giving),
            "acceptance_length": n_tokens / len(giving) if giving else 0.0,
            "seconds": {
                name: sum(brief.seconds[i] for brief in rounds) for i, name in enumerate(STAGES)
            },
            "seed": asked.seed,
            "identity": asked.identity,
        },
    )


def _error(error: str | None) -> list[str]:
    return [f"The error: {error}."] if error else []


def _funnel(giving: Seq[Brief], n_tokens: int) -> list[str]:
    if not giving:
        return []
    drafted, kept = sum(b.drafted for b in giving), sum(b.kept for b in giving)
    allowed = sum(b.max_nodes for b in giving)
    said = (
        f"Each pass gave {number(n_tokens / len(giving))} tokens: {allowed} guesses were allowed, "
        f"{drafted} offered, {kept} kept"
    )
    lost = sum(b.drafted > 0 and b.kept == 0 for b in giving)
    if drafted:
        said += f" ({share(kept, drafted)}); {count(lost, 'round')} lost all of theirs"
    return [f"{said}."]


def _silence(giving: Seq[Brief]) -> list[str]:
    """Rounds without guesses, by why."""
    quiet = [brief for brief in giving if brief.drafted == 0]
    if not quiet:
        return []
    why = Counter[str]()
    for brief in quiet:
        if brief.asked:
            why["the drafter had nothing to offer"] += 1
        elif brief.max_nodes == 0:
            why[brief.reason or "the control allowed none"] += 1
        else:
            why["there was no room for a guess"] += 1
    reasons = "; ".join(f"{n} because {reason}" for reason, n in why.most_common(4))
    return [f"{count(len(quiet), 'round')} had no guess: {reasons}."]


def _time(rounds: Seq[Brief], total: float) -> list[str]:
    if total <= 0:
        return []
    parts = {name: sum(b.seconds[i] for b in rounds) for i, name in enumerate(STAGES)}
    said = ", ".join(
        f"{name} {share(seconds, total)}"
        for name, seconds in sorted(parts.items(), key=lambda item: -item[1])
    )
    told = [f"The time went to {said}."]
    waited = sum(brief.waited_s for brief in rounds)
    if waited > 0.1 * total:
        told.append(f"Between its rounds it waited {duration(waited)}.")
    slow = max(rounds, key=lambda brief: brief.total_s)
    told.append(f"Its slowest round was {slow.round}, with {duration(slow.total_s)}.")
    return told


def _sources(found: Outline, request: int) -> list[str]:
    end = found.ends.get(request)
    if end is None or not end.totals.sources:
        return []
    said = "; ".join(
        f"{source.name} offered {source.drafted}, {source.judged} were judged, {source.kept} kept"
        for source in end.totals.sources
    )
    return [f"By drafter: {said}."]


def _surprise(rounds: Seq[Brief]) -> list[str]:
    n_before, rarest = 0, (2.0, 0)
    for brief in rounds:
        if brief.rarest is not None:
            rarest = min(rarest, (brief.rarest[1], n_before + brief.rarest[0] + 1))
        n_before += brief.emitted
    p, token = rarest
    return [f"Its most surprising token is {token}, with p={number(p)}."] if token else []
