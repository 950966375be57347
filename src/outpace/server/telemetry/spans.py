"""A finished request as spans: the names are those of OpenTelemetry's GenAI conventions.

`gen_ai.latency.*` are vLLM's, `outpace.*` ours. No text of users is in any of them, unless the
operator logs prompts (`--log-prompts`).
"""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Any

from opentelemetry.trace import Span, Status, StatusCode, Tracer, set_span_in_context

from outpace.server.answer.choice import Answer
from outpace.server.metrics.meters import STAGES

Value = str | int | float | bool | Seq[str]
_OPERATIONS = {"/v1/chat/completions": "chat", "/v1/completions": "text_completion"}


def operation_of(path: str) -> str | None:
    """GenAI's name of what a path does; None for those without spans."""
    return _OPERATIONS.get(path)


def describe(span: Span, answers: Seq[Answer]) -> None:
    """What was asked of a request's answers, and what became of them."""
    if not answers:
        return
    job = answers[0].job
    sampling = job.sampling
    asked: dict[str, Value | None] = {
        "gen_ai.request.max_tokens": sampling.max_tokens,
        "gen_ai.request.temperature": sampling.temperature,
        "gen_ai.request.top_p": sampling.top_p,
        "gen_ai.request.top_k": sampling.top_k or None,
        "gen_ai.request.frequency_penalty": sampling.frequency_penalty or None,
        "gen_ai.request.presence_penalty": sampling.presence_penalty or None,
        "gen_ai.request.choice.count": job.n_choices if job.n_choices > 1 else None,
        "gen_ai.usage.input_tokens": job.n_prompt_tokens,
        "gen_ai.usage.output_tokens": sum(answer.n_shown for answer in answers),
        "gen_ai.response.finish_reasons": [answer.reason() or "abort" for answer in answers],
        "outpace.stream": job.stream,
    }
    meters = [answer.stream.meter for answer in answers]
    rounds, kept = sum(m.rounds for m in meters), sum(m.kept for m in meters)
    asked |= {
        "outpace.rounds": rounds,
        "outpace.guesses": sum(m.drafted for m in meters),
        "outpace.guesses_kept": kept,
        "outpace.tokens_per_round": 1 + kept / rounds if rounds else None,
        "outpace.rule": meters[0].rule(),
        **_latency(answers[0]),
    }
    span.set_attributes({name: value for name, value in asked.items() if value is not None})


def _latency(answer: Answer) -> dict[str, float]:
    """Of the first answer, in seconds."""
    times = answer.stream.times
    found: dict[str, float] = {}
    if times.admitted_s is not None:
        found["gen_ai.latency.time_in_queue"] = times.admitted_s - times.submitted_s
    if times.chunks_s:
        found["gen_ai.latency.time_to_first_token"] = times.chunks_s[0] - times.submitted_s
    if times.ended_s is not None:
        found["gen_ai.latency.e2e"] = times.ended_s - times.submitted_s
    return found


def stage_spans(
    tracer: Tracer, parent: Span, answer: Answer, seconds: Mapping[str, float], epoch_s: float
) -> None:
    """Five children, laid end to end from the answer's admission.

    Each is as long as its stage's rounds together; where a stage stands says nothing, and
    `outpace.aggregated` says that. epoch_s: what to add to the engine's clock.
    """
    at_s = answer.stream.times.admitted_s
    if at_s is None or not seconds:
        return
    at_s += epoch_s
    meter = answer.stream.meter
    counts: dict[str, dict[str, Any]] = {
        "draft": {"outpace.guesses": meter.drafted},
        "accept": {"outpace.guesses_kept": meter.kept},
        "repeat": {"outpace.tokens": meter.tokens},
    }
    context = set_span_in_context(parent)
    for stage in STAGES:
        span = tracer.start_span(
            f"outpace.{stage}",
            context=context,
            start_time=int(at_s * 1e9),
            attributes={
                "outpace.aggregated": True,
                "outpace.rounds": meter.rounds,
                "outpace.choice": answer.index,
                **counts.get(stage, {}),
            },
        )
        at_s += seconds[stage]
        span.end(int(at_s * 1e9))


def failed(span: Span, status: int, kind: str | None) -> None:
    """Mark a span of a request that this server failed; a refusal is the caller's affair."""
    if status >= 500 or kind is not None:
        span.set_attribute("error.type", kind or str(status))
        span.set_status(Status(StatusCode.ERROR))
    elif status >= 400:
        span.set_attribute("error.type", str(status))
