"""`outpace bench`: arms against each other on one model, and the records to prove it."""

import hashlib
import json
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outpace import __version__
from outpace.cli.options import (
    DEFAULT_MODEL,
    DeviceOption,
    LoadOptions,
    RuntimeOption,
    TemperatureOption,
    ThreadsOption,
    WeightsOption,
    open_model,
)
from outpace.cli.terminal import print_json, say
from outpace.errors import ConfigError

if TYPE_CHECKING:
    from outpace.bench.arrivals import Load
    from outpace.bench.record import Records
    from outpace.bench.run import Plan, Step
    from outpace.bench.subject import Subject
    from outpace.bench.summary import Objectives

RECORDS = "records.jsonl"

_MODEL = (
    "Catalog name, directory, GGUF file or hub id; with --base-url, the endpoint's name for it."
)
_ARMS = (
    "Drafters, with @off or @fixed:N if wanted; the first is the base (none,auto). Of an endpoint: "
    "as-is, or off, auto, fixed:N."
)
SubjectOption = Annotated[str | None, typer.Option("--model", "-m", help=_MODEL)]
ArmsOption = Annotated[str | None, typer.Option(help=_ARMS)]


def bench(
    model: SubjectOption = None,
    base_url: Annotated[
        str | None, typer.Option(help="An OpenAI-compatible endpoint, in place of a model here.")
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable with the endpoint's key.")
    ] = None,
    prompts: Annotated[
        Path | None, typer.Option(help="JSONL with prompt, messages, turns or conversations.")
    ] = None,
    arms: ArmsOption = None,
    concurrency: Annotated[str, typer.Option("--concurrency", "-c", help="Streams.")] = "1",
    rate: Annotated[
        str | None, typer.Option(help="Requests per second arriving by chance; replaces -c.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="CSV of arrivals to replay; replaces -c.")
    ] = None,
    time_unit: Annotated[
        str | None, typer.Option(help="Of the trace: datetime, s, ms, us or ns.")
    ] = None,
    time_scale: Annotated[float, typer.Option(help="Trace seconds per second.")] = 1.0,
    requests: Annotated[int, typer.Option("--requests", "-r", help="Least per block.")] = 16,
    repeats: Annotated[int, typer.Option(help="Blocks of each arm and load.")] = 2,
    max_tokens: Annotated[int, typer.Option("--max-tokens", "-n", help="Longest answer.")] = 128,
    temperature: TemperatureOption = 0.0,
    ignore_eos: Annotated[bool, typer.Option("--ignore-eos", help="Full length always.")] = False,
    seed: Annotated[int, typer.Option(help="Of sampling and arrivals.")] = 0,
    warm_up: Annotated[int, typer.Option(help="Requests before an arm is measured.")] = 2,
    slo: Annotated[
        str, typer.Option(help="Objectives in ms for goodput, such as 'ttft:500 tpot:60'.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option(help="Folder for the records; the same run continues there.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
    runtime: RuntimeOption = "auto",
    weights: WeightsOption = "auto",
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> int:
    """Measure arms that differ in speculation only, taking turns on one model or endpoint."""
    from outpace.bench.arrivals import read_loads
    from outpace.bench.run import Plan, parse_arms
    from outpace.bench.subject import AS_IS, parse_settings
    from outpace.bench.summary import parse_objectives
    from outpace.bench.workload import BUILT_IN, read_workload
    from outpace.core.sampling import Sampling

    objectives = parse_objectives(slo)
    plan = Plan(
        arms=parse_settings(arms or AS_IS) if base_url else parse_arms(arms or "none,auto"),
        loads=read_loads(concurrency, rate, trace, (time_unit, time_scale), n=requests, seed=seed),
        workload=read_workload(prompts or BUILT_IN),
        sampling=Sampling(temperature=temperature, max_tokens=max_tokens, ignore_eos=ignore_eos),
        requests=requests,
        repeats=repeats,
        warm_up=warm_up,
        seed=seed,
    )
    folder = out or Path(f"outpace-bench-{datetime.now().astimezone():%Y%m%d-%H%M%S}")
    options = LoadOptions(
        model=model or DEFAULT_MODEL, drafter="none",
        others=tuple(arm.drafter for arm in plan.arms if arm.drafter),
        runtime=runtime, weights=weights, device=device, threads=threads,
    )  # fmt: skip
    opened = (
        _endpoint(base_url, plan, model=model, key=read_key(api_key_env))
        if base_url
        else _in_this_process(options, plan)
    )
    with opened as subject:
        return _Bench(plan, subject, folder).run(objectives, as_json=as_json)


@contextmanager
def _in_this_process(options: LoadOptions, plan: "Plan") -> "Iterator[Subject]":
    from outpace.bench.subject import InThisProcess

    with open_model(options) as model:
        yield InThisProcess(model, plan.arms)


@contextmanager
def _endpoint(url: str, plan: "Plan", *, model: str | None, key: str | None) -> "Iterator[Subject]":
    from outpace.bench.http import OverHttp
    from outpace.bench.subject import AtEndpoint

    with closing(OverHttp(url, model=model, api_key=key)) as http:
        yield AtEndpoint(http, plan.arms)


def read_key(variable: str | None) -> str | None:
    """A key from the environment.

    Raises:
        ConfigError: there is no such variable, or it is empty.
    """
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ConfigError(f"api_key_env names {variable}, which is not set; put the key into it")
    return key


class _Bench:
    """One plan on what is measured, its records in one folder."""

    def __init__(self, plan: "Plan", subject: "Subject", folder: Path) -> None:
        self._plan, self._subject, self._path = plan, subject, folder / RECORDS
        self._facts = facts_of(plan, subject)
        same = {k: v for k, v in self._facts.items() if k not in ("repeats", "started_at")}
        self._identity = hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot make the folder {folder}: {error.strerror}") from None

    def run(self, objectives: "Objectives", *, as_json: bool) -> int:
        from outpace.bench.record import read_records
        from outpace.bench.summary import summarise
        from outpace.cli.figures import show_summary

        interrupted = self._measure()
        records = read_records(self._path)
        summary = summarise(records, objectives, [*_notes(self._plan), *self._subject.notes()])
        if as_json:
            print_json({
                "schema": 1, "records": str(self._path), "interrupted": interrupted,
                "facts": dict(records.facts), **asdict(summary),
            })  # fmt: skip
        else:
            show_summary(summary)
        say(f"[dim]{'interrupted; ' if interrupted else ''}records: ", str(self._path))
        return 130 if interrupted else 0

    def _measure(self) -> bool:
        from outpace.bench.record import run_line
        from outpace.bench.run import run
        from outpace.journal import Journal

        with Journal(self._path) as journal:
            old = self._continued()
            if old is None:
                journal.append(run_line(self._facts, self._identity))
            done = old.done if old else frozenset()
            attempt = old.last_attempt + 1 if old else 0
            with _progress(self._plan, n_done=len(done)) as tell:
                try:
                    run(self._plan, self._subject.client, journal, tell, done=done, attempt=attempt)
                except KeyboardInterrupt:
                    return True
        return False

    def _continued(self) -> "Records | None":
        from outpace.bench.record import read_records

        if not self._path.stat().st_size:
            return None
        old = read_records(self._path)
        if old.identity != self._identity:
            changed = [k for k, v in self._facts.items() if old.facts.get(k) != v]
            raise ConfigError(
                f"{self._path} has another run's records (different: {', '.join(changed)}); "
                "name another folder with --out"
            )
        return old


def _notes(plan: "Plan") -> Iterator[str]:
    for load in plan.loads:
        if plan.repeats_items(load):
            yield (
                f"{load.name} asks some prompts more than once in a block; drafters that remember "
                "answers, and reuse of beginnings, gain from that in every arm that has them"
            )
    if plan.repeats % 2 and len(plan.arms) > 1:
        yield "an odd number of repeats does not cancel a machine that slows down; use an even one"


def facts_of(plan: "Plan", subject: "Subject") -> dict[str, object]:
    """What is measured, on what."""
    return {
        "arms": [arm.name for arm in plan.arms],
        "loads": [load.name for load in plan.loads],
        "prompts": plan.workload.name,
        "prompts_sha256": plan.workload.sha256,
        "sampling": {
            "temperature": plan.sampling.temperature, "max_tokens": plan.sampling.max_tokens,
            "ignore_eos": plan.sampling.ignore_eos, "seed": plan.seed,
        },
        "requests": plan.requests, "repeats": plan.repeats, "warm_up": plan.warm_up,
        "outpace": __version__, **subject.facts(),
        "python": platform.python_version(), "machine": platform.platform(),
        "cores": os.cpu_count(),
        "started_at": datetime.now().astimezone().isoformat(timespec="seconds"),
    }  # fmt: skip


@contextmanager
def _progress(plan: "Plan", *, n_done: int) -> "Iterator[Callable[[Step], None]]":
    from outpace.bench.arrivals import Closed
    from outpace.cli.figures import work_bar

    def weight(load: "Load") -> float:
        # More streams end more requests per second, but not as many times more.
        return load.streams**-0.6 if isinstance(load, Closed) else 1.0

    blocks = list(plan.blocks())
    total = sum(plan.n_requests(load) * weight(load) for load, _, _ in blocks[n_done:])
    with work_bar(total) as advance:

        def tell(step: "Step") -> None:
            label = f"{step.block.arm} {step.block.load} #{step.block.repeat + 1}"
            advance(weight(step.load) if step.request else 0.0, label)

        yield tell
