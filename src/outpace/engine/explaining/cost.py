"""Why a round was slow: the share of each stage, and what sets the round apart from the others."""

from collections.abc import Sequence as Seq
from dataclasses import asdict
from statistics import median

from outpace.engine.explaining.brief import STAGES, Brief
from outpace.engine.explaining.words import Passage, count, duration, number, share

# A stage that takes this many times its median is named as unusual.
_UNUSUAL = 3.0


def slowest(rounds: Seq[Brief], n: int) -> list[Passage]:
    """The n rounds that took longest, each with its likely causes, slowest first."""
    ranked = sorted(rounds, key=lambda brief: (-brief.total_s, brief.line))
    return [slow_round(brief, rounds) for brief in ranked[:n]]


def slow_round(brief: Brief, rounds: Seq[Brief]) -> Passage:
    """One round: its time by stage, what it gave, and why it was slow."""
    causes = why_slow(brief, rounds)
    typical = median(other.total_s for other in rounds)
    stages = ", ".join(
        f"{name} {share(seconds, brief.total_s)}"
        for name, seconds in sorted(zip(STAGES, brief.seconds, strict=True), key=lambda x: -x[1])
        if seconds > 0
    )
    sentences = [
        f"It took {duration(brief.total_s)} ({number(brief.total_s / typical)} times the median)"
        f" and gave {count(brief.emitted, 'token')}: {stages}."
        if typical > 0
        else f"It took {duration(brief.total_s)} and gave {count(brief.emitted, 'token')}.",
        *causes,
    ]
    if brief.asked or brief.max_nodes == 0:
        sentences.append(control_sentence(brief))
    return Passage(
        title=f"Round {brief.round} of request {brief.request}, from position {brief.start}",
        sentences=tuple(sentences),
        line=brief.line,
        request=brief.request,
        round=brief.round,
        facts={
            **asdict(brief),
            "seconds": dict(zip(STAGES, brief.seconds, strict=True)),
            "total_s": brief.total_s,
            "median_s": typical,
            "causes": causes,
        },
    )


def control_sentence(brief: Brief) -> str:
    """What the control had allowed, in its own words."""
    because = f" because: {brief.reason}" if brief.reason else ""
    if brief.max_nodes == 0:
        return f"The control had allowed no guesses{because}."
    allowed = f"{count(brief.max_nodes, 'guess')}, {brief.max_depth} deep"
    return f"The control had allowed {allowed}{because}."


def why_slow(brief: Brief, rounds: Seq[Brief]) -> list[str]:
    """The likely causes, strongest first; never empty."""
    causes = [*_reading(brief), *_unusual_stages(brief, rounds)]
    causes += [*_company(brief, rounds), *_guessing(brief)]
    if brief.waited_s > brief.total_s:
        causes.append(
            f"Before it the request waited {duration(brief.waited_s)} for its turn, or for "
            f"whoever reads it."
        )
    if not causes:
        causes.append(
            "Nothing in the trace sets this round apart from faster ones; the machine was busy "
            "with something else, or this is the spread of its times."
        )
    return causes


def _reading(brief: Brief) -> list[str]:
    if brief.reread:
        return [
            f"{count(brief.reread, 'token')} had to be read again: the sequence's memory had been "
            f"given to others."
        ]
    if brief.catch_up > 1:
        return [f"It read {brief.catch_up} tokens of the prompt besides."]
    return []


def _company(brief: Brief, rounds: Seq[Brief]) -> list[str]:
    if brief.sequences > 1:
        return [
            f"The pass was shared by {brief.sequences} sequences and had {brief.batch_rows} rows, "
            f"{brief.n_rows} of them this one's."
        ]
    typical = median(other.n_rows for other in rounds)
    if brief.n_rows >= 2 * typical and brief.drafted:
        return [
            f"It had {brief.n_rows} rows, {brief.drafted} of them guesses; the median round has "
            f"{number(typical)}."
        ]
    return []


def _guessing(brief: Brief) -> list[str]:
    if not brief.judged:
        return ["It gave no token: the prompt was not read to its end yet, or the request failed."]
    if brief.drafted and not brief.kept:
        return [
            f"None of {count(brief.drafted, 'guess')} was kept, so the whole pass gave the one "
            f"token that plain decoding gives."
        ]
    if brief.drafted == 0 and brief.asked:
        return ["The drafter offered nothing, so the whole pass gave one token."]
    if brief.drafted == 0:
        return ["Nothing was guessed, so the whole pass gave one token."]
    return []


def _unusual_stages(brief: Brief, rounds: Seq[Brief]) -> list[str]:
    told: list[str] = []
    for i, name in enumerate(STAGES):
        typical = median(other.seconds[i] for other in rounds)
        seconds = brief.seconds[i]
        if seconds >= 0.1 * brief.total_s and 0 < _UNUSUAL * typical <= seconds:
            told.append(
                f"Stage {name} took {duration(seconds)}, {number(seconds / typical)} times its "
                f"median."
            )
    return told
