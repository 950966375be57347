"""From HTTP requests to spans, and from spans to a collector.

The middleware is there only when spans are wanted. A request's own trace goes on: `traceparent`
(or whatever OTEL_PROPAGATORS names) is read from its headers, and its decision on sampling holds.
"""

from collections.abc import Sequence as Seq
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from fastapi import FastAPI
from opentelemetry import propagate
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Tracer
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outpace import __version__
from outpace.engine.service import Service
from outpace.errors import ConfigError
from outpace.server.answer.choice import Answer
from outpace.server.log import notes_of
from outpace.server.metrics.epoch import epoch_s
from outpace.server.routes.generate import ANSWERS
from outpace.server.telemetry.spans import describe, failed, operation_of, stage_spans
from outpace.server.telemetry.stages import StageSeconds

# Where a collector takes spans, below its base address (OTLP over HTTP).
_PATH: Final = "/v1/traces"
_UNNAMED: Final = "unknown_service"


class Telemetry:
    """Spans of every request for an answer, to a provider of the SDK, which it shuts down."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider

    def watch(self, app: FastAPI, service: Service, model: str) -> None:
        """From now on, trace what an application answers."""
        stages = StageSeconds()
        service.engine.listeners.append(stages.listen)
        tracer = self._provider.get_tracer("outpace", __version__)
        app.add_middleware(_Spans, tracer=tracer, stages=stages, model=model)

    def shutdown(self) -> None:
        """Send what is left."""
        self._provider.shutdown()


class _Spans:
    """A server span around every request for an answer, and its stages when it is over."""

    def __init__(self, app: ASGIApp, *, tracer: Tracer, stages: StageSeconds, model: str) -> None:
        self._app = app
        self._tracer = tracer
        self._stages = stages
        self._model = model

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        operation = operation_of(scope["path"]) if scope["type"] == "http" else None
        if operation is None or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        status, kind = 0, None

        async def told(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        span = self._begin(scope, operation)
        try:
            await self._app(scope, receive, told)
        except BaseException as error:
            kind = type(error).__name__
            raise
        finally:
            self._end(span, scope, status or 499, kind)

    def _begin(self, scope: Scope, operation: str) -> Span:
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        return self._tracer.start_span(
            f"{operation} {self._model}",
            context=propagate.extract(headers),
            kind=SpanKind.SERVER,
            attributes={
                "gen_ai.operation.name": operation,
                "gen_ai.provider.name": "outpace",
                "gen_ai.request.model": self._model,
                "gen_ai.response.model": self._model,
                "http.request.method": "POST",
                "http.route": scope["path"],
            },
        )

    def _end(self, span: Span, scope: Scope, status: int, kind: str | None) -> None:
        answers: Seq[Answer] = scope.get(ANSWERS, ())
        offset_s, notes = epoch_s(), notes_of(scope)
        span.set_attribute("http.response.status_code", status)
        span.set_attribute("outpace.request_id", str(notes.get("request_id", "")))
        if "body" in notes:  # only where the operator logs prompts
            span.set_attribute("outpace.request.body", str(notes["body"]))
        describe(span, answers)
        for answer in answers:
            seconds = self._stages.take(answer.stream.sequence.key)
            if span.is_recording():
                stage_spans(self._tracer, span, answer, seconds, offset_s)
            if answer.finish is None and answer.stream.finish == "error":
                kind = kind or "engine_error"
        failed(span, status, kind)
        with suppress(Exception):  # an exporter's trouble is no request's
            span.end()


def telemetry_to(endpoint: str | None) -> Telemetry:
    """Spans in batches to a collector, by OTLP over HTTP.

    endpoint: its base address, such as http://127.0.0.1:4318; None = what the standard variables
    (OTEL_EXPORTER_OTLP_ENDPOINT and its kin, which the SDK reads) say.

    Raises:
        ConfigError: an address that is none.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    resource = Resource.create({SERVICE_VERSION: __version__})
    if str(resource.attributes.get(SERVICE_NAME, _UNNAMED)).startswith(_UNNAMED):
        resource = resource.merge(Resource({SERVICE_NAME: "outpace"}))
    provider = TracerProvider(resource=resource)
    exporter = OTLPSpanExporter(endpoint=_traces_url(endpoint) if endpoint else None)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Telemetry(provider)


def _traces_url(endpoint: str) -> str:
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigError(
            f"otlp_endpoint is {endpoint!r}; allowed: the base address of a collector that takes "
            f"OTLP over HTTP, such as http://127.0.0.1:4318"
        )
    return endpoint if parts.path.endswith(_PATH) else endpoint.rstrip("/") + _PATH
