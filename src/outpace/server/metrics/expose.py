"""`/metrics` in Prometheus' text format: vLLM's names, so that dashboards and load tools that know
those work unchanged, and our own beside them.

Ratios are left to whoever reads: a scraper divides counters over its own window. What has not
happened is absent; nothing is ever NaN.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector, CollectorRegistry

from outpace import __version__
from outpace.engine.service import Service
from outpace.server.metrics.histogram import Snapshot
from outpace.server.metrics.meters import Counted, Meters

_OWN_HISTOGRAMS = {"inter_chunk_seconds": "Time between chunks of one answer: a reader's stutter."}
_VLLM_HISTOGRAMS = {
    "time_to_first_token_seconds": "From submit to the first token.",
    "inter_token_latency_seconds": "Time per token: a chunk's time shared among its tokens.",
    "request_time_per_output_token_seconds": "Per request: decoding time per later token.",
    "e2e_request_latency_seconds": "From submit to the end.",
    "request_queue_time_seconds": "From submit to admission.",
    "request_inference_time_seconds": "From admission to the end.",
    "request_prefill_time_seconds": "From admission to the first token.",
    "request_decode_time_seconds": "From the first token to the last.",
    "request_prompt_tokens": "Tokens of a prompt.",
    "request_generation_tokens": "Tokens of an answer.",
    "request_params_n": "The n of requests.",
    "request_params_max_tokens": "The max_tokens of requests.",
    "iteration_tokens_total": "Tokens a pass brought, over all requests in it.",
}
# Ours to vLLM's words for how a request ended.
_REASONS = {"eos": "stop", "stop_token": "stop", "stop_string": "stop", "context": "length"}


class ServerCollector(Collector):
    """Turns counts into metric families, each time it is asked."""

    def __init__(self, service: Service, meters: Meters, model: str) -> None:
        self._service = service
        self._meters = meters
        self._labels = {"model_name": model, "engine": "0"}

    def collect(self) -> Iterator[Metric]:
        """All families."""
        counted = self._meters.counted()
        yield from self._gauges()
        yield from self._vllm(counted)
        yield from self._own(counted)
        for name, text in _VLLM_HISTOGRAMS.items():
            yield self._histogram(f"vllm:{name}", text, counted.histograms[name])
        for name, text in _OWN_HISTOGRAMS.items():
            yield self._histogram(f"outpace_{name}", text, counted.histograms[name])

    def _gauges(self) -> Iterator[Metric]:
        stats, health = self._service.stats(), self._service.health()
        yield self._gauge("vllm:num_requests_running", "Requests that hold memory.", stats.running)
        yield self._gauge("vllm:num_requests_waiting", "Requests that wait.", stats.waiting)
        used = self._pool_use()
        if used is not None:
            yield self._gauge("vllm:kv_cache_usage_perc", "Used share of the cache, 0 to 1.", used)
        yield self._gauge("outpace_up", "1 while requests are taken.", health.state == "running")
        yield self._gauge("outpace_tokens_per_second", "Of the last seconds.", stats.tokens_per_s)
        yield from self._control()
        info = GaugeMetricFamily(
            "outpace_build_info", "Version, drafter and runtime.",
            labels=["version", "drafter", "runtime"],
        )  # fmt: skip
        engine = self._service.engine
        info.add_metric([__version__, engine.drafter.name, engine.runtime.traits.name], 1)
        yield info

    def _control(self) -> Iterator[Metric]:
        """What the control says guesses must bring; absent where it does not measure."""
        say = getattr(self._service.engine.control, "snapshot", None)
        said = say() if say is not None else None
        if said is None or said.breakeven is None or said.speedup is None:
            return
        for name, text, value in (
            ("breakeven_tokens", "Tokens of a round that pay for its guesses.", said.breakeven),
            ("speedup", "Speed over plain decoding, by measured costs.", said.speedup),
        ):
            yield self._gauge(f"outpace_control_{name}", text, value)

    def _pool_use(self) -> float | None:
        stats = getattr(self._service.engine.runtime, "stats", None)
        if stats is None:
            return None
        pool = stats()
        return float(pool.n_owned / pool.n_pages) if pool.n_pages else None

    def _vllm(self, c: Counted) -> Iterator[Metric]:
        get = c.totals.get
        for name, text, value in (
            ("prompt_tokens", "Tokens of finished prompts.", get("prompt_tokens", 0)),
            ("generation_tokens", "Tokens of answers.", get("generation_tokens", 0)),
            ("num_preemptions", "Times a request lost its memory.", get("preempted", 0)),
            ("prefix_cache_queries", "Prompt tokens looked up.", get("prompts_read", 0)),
            ("prefix_cache_hits", "Prompt tokens that were known.", get("prompts_known", 0)),
        ):
            yield self._counter(f"vllm:{name}", text, value)
        reasons: dict[str, int] = {}
        for finish, count in c.finished.items():
            reason = _REASONS.get(finish, finish)
            reasons[reason] = reasons.get(reason, 0) + count
        yield self._counters(
            "vllm:request_success", "Requests by how they ended.", "finished_reason", reasons
        )
        if "drafts" not in c.totals and self._service.engine.drafter.name == "none":
            return  # nobody guesses. Where somebody may, load tools look for counters beforehand
        for name, key, text in (
            ("num_drafts", "drafts", "Rounds with guesses."),
            ("num_draft_tokens", "draft_tokens", "Guesses."),
            ("num_accepted_tokens", "accepted_tokens", "Guesses kept."),
        ):
            yield self._counter(f"vllm:spec_decode_{name}", text, get(key, 0))
        yield self._counters(
            "vllm:spec_decode_num_accepted_tokens_per_pos", "Guesses kept, by position.",
            "position", {str(p): c.kept_at.get(p, 0) for p in sorted(c.offered_at)},
        )  # fmt: skip

    def _own(self, c: Counted) -> Iterator[Metric]:
        for name, text in (
            ("passes", "Passes of the model."),
            ("rounds", "Rounds that gave tokens."),
            ("rows", "Rows of all passes, guesses included."),
        ):
            yield self._counter(f"outpace_{name}", text, c.totals.get(name, 0))
        for family, label, text, values in (
            ("stage_seconds", "stage", "Time of the five stages.", c.stages),
            ("finished", "finish", "Requests by how they ended, in our words.", c.finished),
            ("offered_per_position", "position", "Rounds that offered this position.",
             {str(p): n for p, n in sorted(c.offered_at.items())}),
            ("guesses", "drafter", "Guesses by drafter.",
             {name: n for name, (n, _) in c.by_source.items()}),
            ("guesses_kept", "drafter", "Guesses kept by drafter.",
             {name: kept for name, (_, kept) in c.by_source.items()}),
        ):  # fmt: skip
            yield self._counters(f"outpace_{family}", text, label, values)
        for family, text, labels, pairs in (
            ("control_switches", "Guessing stopped (open) or resumed.", ("drafter", "state"),
             c.switches),
            ("http_responses", "Responses.", ("route", "status"), c.http),
        ):  # fmt: skip
            found = CounterMetricFamily(f"outpace_{family}", text, labels=labels)
            for (first, second), count in sorted(pairs.items()):
                found.add_metric([first, str(second)], count)
            yield found

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        found = GaugeMetricFamily(name, text, labels=list(self._labels))
        found.add_metric(list(self._labels.values()), value)
        return found

    def _counter(self, name: str, text: str, value: float) -> Metric:
        found = CounterMetricFamily(name, text, labels=list(self._labels))
        found.add_metric(list(self._labels.values()), value)
        return found

    def _counters(self, name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
        found = CounterMetricFamily(name, text, labels=[*self._labels, label])
        for key, value in values.items():
            found.add_metric([*self._labels.values(), key], value)
        return found

    def _histogram(self, name: str, text: str, values: Snapshot) -> Metric:
        found = HistogramMetricFamily(name, text, labels=list(self._labels))
        found.add_metric(list(self._labels.values()), _buckets(values), sum_value=values.total)
        return found


def _buckets(values: Snapshot) -> Seq[tuple[str, float]]:
    return [
        ("+Inf" if bound == float("inf") else str(bound), count) for bound, count in values.buckets
    ]


def registry_of(service: Service, meters: Meters, model: str) -> CollectorRegistry:
    """A registry of this server alone: several may live in one process."""
    registry = CollectorRegistry()
    registry.register(ServerCollector(service, meters, model))
    return registry
