"""Spans of requests, into the SDK's own memory."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import httpx
import pytest

from outpace.api import Model
from outpace.cli.serve import open_telemetry
from outpace.core.sampling import Sampling
from outpace.engine.service import Service
from outpace.errors import ConfigError
from outpace.server.app import create_app
from outpace.server.settings import Settings
from small import small_model

pytest.importorskip("opentelemetry.sdk", reason="the extra outpace[otel] is not installed")
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from outpace.server.telemetry.trace import Telemetry, telemetry_to

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNSAMPLED = PARENT[:-2] + "00"
STAGES = ["draft", "score", "accept", "resample", "repeat"]
ASKED: dict[str, Any] = {"prompt": "ab ab ab ab ab", "max_tokens": 60, "temperature": 0,
                         "ignore_eos": True}  # fmt: skip


class Traced:
    """An application that is asked without a socket, and the spans it made."""

    def __init__(self, model: Model, service: Service, settings: Settings, *, on: bool) -> None:
        self.memory, self.service = InMemorySpanExporter(), service
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.memory))
        telemetry = Telemetry(provider) if on else None
        self.app = create_app(model, service, settings, telemetry=telemetry)

    def post(self, path: str = "/v1/completions", headers: dict[str, str] | None = None,
             **body: Any) -> httpx.Response:  # fmt: skip
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
                return await http.post(path, json=body, headers=headers)

        return asyncio.run(ask())

    def spans(self) -> tuple[ReadableSpan, list[ReadableSpan]]:
        """The request's, and its children in order."""
        *children, request = self.memory.get_finished_spans()
        return request, children


@contextmanager
def traced(settings: Settings | None = None, *, on: bool = True) -> Iterator[Traced]:
    model = small_model()
    with Service(model.engine) as service:
        yield Traced(model, service, settings or Settings(port=0), on=on)


def test_a_request_is_a_server_span_with_a_child_for_each_stage() -> None:
    with traced() as app:
        done = app.post(**ASKED).json()
        request, children = app.spans()
    found = dict(request.attributes or {})
    counts = done["metrics"]["speculative_decoding"]
    assert request.name == "text_completion small"
    assert request.kind is SpanKind.SERVER
    assert found["gen_ai.operation.name"] == "text_completion"
    assert found["gen_ai.request.model"] == "small"
    assert found["gen_ai.usage.input_tokens"] == 14
    assert found["gen_ai.usage.output_tokens"] == 60
    assert found["gen_ai.response.finish_reasons"] == ("length",)
    assert found["http.response.status_code"] == 200
    assert found["outpace.guesses"] == counts["num_draft_tokens"] > 0
    assert found["outpace.guesses_kept"] == counts["num_accepted_draft_tokens"]
    assert found["outpace.rounds"] == done["metrics"]["outpace"]["rounds"]
    assert [child.name for child in children] == [f"outpace.{stage}" for stage in STAGES]
    for child in children:
        assert child.parent is not None
        assert request.context is not None
        assert child.parent.span_id == request.context.span_id
    assert request.status.status_code is StatusCode.UNSET


def test_stages_are_sums_that_fit_into_their_request() -> None:
    with traced() as app:
        app.post(**ASKED, speculation_metrics="detailed")
        request, children = app.spans()
    assert request.start_time is not None
    assert request.end_time is not None
    at_ns = request.start_time
    lengths = {}
    for child in children:
        assert child.start_time is not None
        assert child.end_time is not None
        assert child.start_time >= at_ns - 1_000_000  # two clocks, read one after the other
        at_ns = child.end_time
        lengths[child.name] = child.end_time - child.start_time
        assert (child.attributes or {})["outpace.aggregated"] is True
    assert at_ns <= request.end_time + 1_000_000
    assert all(length >= 0 for length in lengths.values())
    assert lengths["outpace.score"] > 0


def test_several_answers_have_stages_each() -> None:
    with traced() as app:
        app.post(**{**ASKED, "temperature": 1}, n=3)
        request, children = app.spans()
    assert (request.attributes or {})["gen_ai.request.choice.count"] == 3
    assert [(c.attributes or {})["outpace.choice"] for c in children] == [0] * 5 + [1] * 5 + [2] * 5


def test_a_stream_is_traced_to_its_end() -> None:
    messages = [{"role": "user", "content": "ab ab ab"}]
    with traced() as app:
        response = app.post("/v1/chat/completions", messages=messages, max_tokens=30, seed=1,
                            stream=True)  # fmt: skip
        assert response.text.endswith("data: [DONE]\n\n")
        request, children = app.spans()
    assert request.name == "chat small"
    found = dict(request.attributes or {})
    assert found["outpace.stream"] is True
    assert found["gen_ai.usage.output_tokens"]
    assert found["gen_ai.latency.time_to_first_token"] <= found["gen_ai.latency.e2e"]  # type: ignore[operator]
    assert len(children) == 5


def test_the_callers_trace_goes_on_and_its_decision_holds() -> None:
    with traced() as app:
        app.post(**ASKED, headers={"traceparent": PARENT})
        request, _ = app.spans()
        assert request.parent is not None
        assert request.parent.is_remote
        assert f"{request.parent.trace_id:032x}" == PARENT.split("-")[1]
        assert f"{request.parent.span_id:016x}" == PARENT.split("-")[2]
        app.memory.clear()
        app.post(**ASKED, headers={"traceparent": UNSAMPLED})
        assert app.memory.get_finished_spans() == ()
        app.post(**ASKED, headers={"traceparent": "nonsense"})
        assert app.spans()[0].parent is None


def test_refusals_and_failures_are_told_apart() -> None:
    with traced() as app:
        app.post(**{**ASKED, "temperature": -1})
        refused, children = app.spans()
        assert children == []
        assert (refused.attributes or {})["http.response.status_code"] == 400
        assert (refused.attributes or {})["error.type"] == "400"
        assert refused.status.status_code is StatusCode.UNSET
        app.memory.clear()
        app.service.shutdown(0.0)
        app.post(**ASKED)
        failed, _ = app.spans()
        assert (failed.attributes or {})["error.type"] == "503"
        assert failed.status.status_code is StatusCode.ERROR


@pytest.mark.parametrize("log_prompts", [False, True])
def test_spans_hold_no_words_of_users_unless_prompts_are_logged(log_prompts: bool) -> None:
    with traced(Settings(port=0, log_prompts=log_prompts)) as app:
        app.post(prompt="my secret words", max_tokens=5, stop=["a hidden stop"])
        told = "".join(span.to_json() for span in app.memory.get_finished_spans())
    assert ("secret words" in told) == log_prompts
    assert ("hidden stop" in told) == log_prompts


def test_paths_without_answers_are_not_traced() -> None:
    with traced() as app:
        app.post("/tokenize", prompt="hello")
        assert app.memory.get_finished_spans() == ()


def test_off_nothing_is_there_of_it() -> None:
    with traced(on=False) as app, traced() as other:
        assert app.post(**ASKED).status_code == 200
        assert app.memory.get_finished_spans() == ()
        kinds = [[str(m.cls) for m in a.app.user_middleware] for a in (app, other)]
        assert kinds[1][1:] == kinds[0]
        assert "_Spans" in kinds[1][0]
        assert len(other.service.engine.listeners) == len(app.service.engine.listeners) + 1
    check = (
        "import sys, outpace.server.run, outpace.cli.serve;"
        "assert 'opentelemetry.sdk' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", check], check=True, timeout=120)


def test_requests_of_others_are_forgotten() -> None:
    """Those that did not come over HTTP are never taken by anybody."""
    from outpace.server.telemetry import stages

    sums = stages.StageSeconds()
    model = small_model()
    model.engine.listeners.append(sums.listen)
    keys = []
    for _ in range(3):
        sequence = model.engine.add([1, 2, 3], Sampling(max_tokens=3, ignore_eos=True), seed=1)
        keys.append(sequence.key)
        while not model.engine.idle:
            model.engine.step()
    assert set(sums.take(keys[0])) == set(STAGES)
    assert sums.take(keys[0]) == {}
    assert sums.take(keys[2])["score"] > 0


def test_spans_reach_a_collector_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    got: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as collector:
        thread = threading.Thread(target=collector.serve_forever)
        thread.start()
        try:
            telemetry = open_telemetry(f"http://127.0.0.1:{collector.server_port}", {})
            assert telemetry is not None
            model = small_model()
            with Service(model.engine) as service:
                app = Traced(model, service, Settings(port=0), on=False)
                app.app = create_app(model, service, Settings(port=0), telemetry=telemetry)
                app.post(**ASKED)
            telemetry.shutdown()
        finally:
            collector.shutdown()
            thread.join()
    (path, data), *_ = got
    sent = ExportTraceServiceRequest.FromString(data)
    names = [s.name for r in sent.resource_spans for scope in r.scope_spans for s in scope.spans]
    assert path == "/v1/traces"
    assert sorted(names) == sorted([*(f"outpace.{s}" for s in STAGES), "text_completion small"])
    about = {a.key: a.value.string_value for a in sent.resource_spans[0].resource.attributes}
    assert about["service.name"] == "outpace"
    assert about["deployment.environment.name"] == "test"


def test_where_spans_go_is_asked_of_flags_and_the_standard_variables() -> None:
    here = "http://127.0.0.1:4318"
    assert open_telemetry(None, {}) is None
    for quiet in ({"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}):
        assert open_telemetry(None, {"OTEL_EXPORTER_OTLP_ENDPOINT": here, **quiet}) is None
    for endpoint, environ in (
        (here, {}),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": here}),
        (None, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": here}),
    ):
        telemetry = open_telemetry(endpoint, environ)
        assert telemetry is not None
        telemetry.shutdown()
    with pytest.raises(ConfigError, match=r"OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'"):
        open_telemetry(here, {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
    for wrong in ("localhost:4318", "ftp://x", ""):
        with pytest.raises(ConfigError, match="otlp_endpoint"):
            telemetry_to(wrong or "http:///")


def test_without_the_packages_a_flag_is_refused_and_a_variable_is_not_obeyed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "outpace.server.telemetry.trace", None)
    with pytest.raises(ConfigError, match=r"pip install outpace\[otel\]"):
        open_telemetry("http://127.0.0.1:4318", {})
    assert open_telemetry(None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}) is None
