"""`/outpace/state` and `/outpace/events`: what a page about this server reads.

One JSON document says all there is to show; the events are the same document, again and again. It
holds numbers, never what users wrote. What has no data is null.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from collections.abc import Sequence as Seq
from dataclasses import asdict
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from pydantic_core import to_json

from outpace import __version__
from outpace.server.access import identify
from outpace.server.metrics.meters import Counted, Latency
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
        return Response(to_json(state_of(served)), media_type="application/json")

    @router.get("/outpace/events", response_model=None)
    async def events(request: Request) -> EventStream:
        """Everything, once a second."""
        lease = served.quotas.enter(identify(request, served))
        return EventStream(
            _states(served), send_s=served.settings.bounds.send_s, on_end=lease.release
        )

    return router


async def _states(served: Served) -> AsyncGenerator[bytes, None]:
    while served.service.health().state == "running":
        yield event(to_json(state_of(served)))
        await asyncio.sleep(EVERY_S)
    yield event(to_json(state_of(served)))


def state_of(served: Served) -> dict[str, Any]:
    """The document."""
    engine, counted = served.service.engine, served.meters.counted()
    stats, health = served.service.stats(), served.service.health()
    return {
        "version": __version__,
        "time": time.time(),
        "model": served.model.name,
        "runtime": engine.runtime.traits.name,
        "drafter": engine.drafter.name,
        "health": {"state": health.state, "reason": health.reason or None},
        "requests": {
            "running": stats.running,
            "waiting": stats.waiting,
            "finished": dict(counted.finished),
            "longest_wait_s": stats.longest_wait_s,
        },
        "tokens_per_s": stats.tokens_per_s,
        "totals": {name: counted.totals.get(name, 0) for name in _TOTALS},
        "stages": _stages(counted),
        "acceptance": _acceptance(counted),
        "drafters": {
            name: {"guesses": n, "kept": kept} for name, (n, kept) in counted.by_source.items()
        },
        "control": _control(served),
        "latency": _latency(served.meters.recent()),
    }


_TOTALS = (
    "passes", "rounds", "rows", "drafts", "draft_tokens", "accepted_tokens", "prompt_tokens",
    "generation_tokens", "prompts_known", "preempted",
)  # fmt: skip


def _stages(counted: Counted) -> list[dict[str, Any]]:
    """The five stages in order, each with its share of all their time."""
    whole_s = sum(counted.stages.values())
    return [
        {"stage": stage, "seconds": seconds, "share": seconds / whole_s if whole_s else None}
        for stage, seconds in counted.stages.items()
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


def _control(served: Served) -> dict[str, Any]:
    """What the control says of itself, where it can, and when it last changed its mind."""
    say = getattr(served.service.engine.control, "snapshot", None)
    return {
        "snapshot": asdict(say()) if say is not None else None,
        "switches": [asdict(event) for event in served.meters.recent_switches()],
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
