"""`/outpace/state` and `/outpace/events`: what a page about this server reads.

One JSON document says all there is to show; the events are the same document, again and again,
whose `history` has only what its reader does not have yet. It holds numbers, never what users
wrote. What has no data is null.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from collections.abc import Sequence as Seq
from dataclasses import asdict
from statistics import median
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from pydantic_core import to_json

from outpace import __version__
from outpace.server.access import identify
from outpace.server.metrics.epoch import epoch_s
from outpace.server.metrics.history import RECENT_S, Point
from outpace.server.metrics.meters import STAGES, Counted, Latency
from outpace.server.served import Served
from outpace.server.sse import EventStream, event

EVERY_S: Final = 1.0


def feed_routes(served: Served) -> APIRouter:
    """Both paths; each asks who is calling."""
    router = APIRouter()

    @router.get("/outpace/state", response_model=None)
    async def state(request: Request) -> Response:
        """Everything, now."""
        identify(request, served)
        points = served.history.points(float("-inf"))
        return Response(to_json(state_of(served, points)), media_type="application/json")

    @router.get("/outpace/events", response_model=None)
    async def events(request: Request) -> EventStream:
        """Everything, once a second."""
        lease = served.quotas.enter(identify(request, served))
        return EventStream(
            _states(served), send_s=served.settings.bounds.send_s, on_end=lease.release
        )

    return router


async def _states(served: Served) -> AsyncGenerator[bytes, None]:
    since_s, running = float("-inf"), True
    while running:
        running = served.service.health().state == "running"
        points = served.history.points(since_s)
        yield event(to_json(state_of(served, points)))
        if points:  # the last one may still grow, and is told again
            since_s = points[-1].at_s - points[-1].seconds
        if running:
            await asyncio.sleep(EVERY_S)


def state_of(served: Served, points: Seq[Point]) -> dict[str, Any]:
    """The document. points: of the history."""
    engine, counted = served.service.engine, served.meters.counted(histograms=False)
    stats, health = served.service.stats(), served.service.health()
    return {
        "version": __version__,
        "time": time.time(),
        "model": served.model.name,
        "runtime": engine.runtime.traits.name,
        "drafter": engine.drafter.name,
        "chat": served.model.template is not None,
        "health": {"state": health.state, "reason": health.reason or None},
        "requests": {
            "running": stats.running,
            "waiting": stats.waiting,
            "finished": dict(counted.finished),
            "longest_wait_s": stats.longest_wait_s,
        },
        "tokens_per_s": stats.tokens_per_s,
        **_counts(counted),
        "recent": _recent(served),
        "history": _history(points),
        "control": _control(served),
        "latency": _latency(served.meters.recent()),
    }


_TOTALS = (
    "passes", "rounds", "rows", "drafts", "draft_tokens", "accepted_tokens", "prompt_tokens",
    "generation_tokens", "prompts_known", "preempted",
)  # fmt: skip


def _counts(counted: Counted) -> dict[str, Any]:
    return {
        "totals": {name: counted.totals.get(name, 0) for name in _TOTALS},
        "stages": _stages(counted),
        "acceptance": _acceptance(counted),
        "drafters": {
            name: {"guesses": n, "kept": kept} for name, (n, kept) in counted.by_source.items()
        },
    }


def _recent(served: Served) -> dict[str, Any] | None:
    """The last minute. breakeven: its median, over seconds with guesses."""
    counted = served.history.recent()
    if counted is None:
        return None
    points = served.history.points(time.perf_counter() - RECENT_S)
    even = [p.breakeven for p in points if p.drafts and p.breakeven is not None]
    return {
        "seconds": RECENT_S,
        "breakeven": median(even) if even else None,
        **_counts(counted),
    }


def _stages(counted: Counted) -> list[dict[str, Any]]:
    """The five stages in order: each one's share of all their time, and tokens in and out."""
    whole_s = sum(counted.stages.values())
    get = counted.totals.get
    rounds, guesses, kept = (get(name, 0) for name in ("rounds", "draft_tokens", "accepted_tokens"))
    flow = {
        "draft": (rounds, guesses),  # from the last token of each text
        "score": (get("rows", 0), rounds + guesses),  # a law after each text and each guess
        "accept": (guesses, kept),
        "resample": (rounds, rounds),  # one token of the target's own
        "repeat": (kept + rounds, get("generation_tokens", 0)),  # up to the end of a text
    }
    return [
        {
            "stage": stage,
            "seconds": counted.stages.get(stage, 0.0),
            "share": counted.stages.get(stage, 0.0) / whole_s if whole_s else None,
            "tokens_in": flow[stage][0],
            "tokens_out": flow[stage][1],
        }
        for stage in STAGES
    ]


def _acceptance(counted: Counted) -> dict[str, Any]:
    drafts, kept = counted.totals.get("drafts", 0), counted.totals.get("accepted_tokens", 0)
    rounds = counted.totals.get("rounds", 0)
    return {
        "length": 1 + kept / drafts if drafts else None,
        "tokens_per_round": 1 + kept / rounds if rounds else None,
        "by_position": [
            {"position": p, "offered": offered, "kept": counted.kept_at.get(p, 0)}
            for p, offered in sorted(counted.offered_at.items())
        ],
    }


def _history(points: Seq[Point]) -> list[dict[str, Any]]:
    """Points with their end as seconds since 1970."""
    offset_s = epoch_s()
    return [
        {
            "time": round(offset_s + point.at_s, 3),
            "seconds": round(point.seconds, 3),
            "tokens": point.tokens,
            "rounds": point.rounds,
            "drafts": point.drafts,
            "length": point.length,
            "breakeven": point.breakeven,
        }
        for point in points
    ]


def _control(served: Served) -> dict[str, Any]:
    """What the control says of itself, where it can, and what it decided last, newest first."""
    say = getattr(served.service.engine.control, "snapshot", None)
    now_s = time.perf_counter()
    return {
        "snapshot": asdict(say()) if say is not None else None,
        "switches": [asdict(event) for event in served.meters.recent_switches()],
        "decisions": [
            {
                "ago_s": round(now_s - decision.at_s, 1),
                "request": decision.key,
                "kind": decision.kind,
                "guesses": decision.guesses,
                "reason": decision.reason,
            }
            for decision in served.history.decisions()
        ],
    }


def _latency(recent: Seq[Latency]) -> dict[str, Any]:
    """Percentiles of the last answers, in seconds."""
    columns = {
        "first_token_s": [latency.first_token_s for latency in recent],
        "per_token_s": [x for latency in recent if (x := latency.per_token_s) is not None],
        "whole_s": [latency.whole_s for latency in recent],
    }
    return {
        name: {f"p{p}": _percentile(sorted(xs), p) for p in (50, 90, 99)} if xs else None
        for name, xs in columns.items()
    } | {"answers": len(recent)}


def _percentile(ordered: Seq[float], percent: int) -> float:
    """The nearest rank."""
    return ordered[min(len(ordered) - 1, -(-percent * len(ordered) // 100) - 1)]
