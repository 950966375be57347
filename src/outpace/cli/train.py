"""`outpace train`: a drafter for a model, from the model alone; stopped and continued at will."""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outpace.cli.options import DEFAULT_MODEL, ThreadsOption
from outpace.cli.terminal import pull_progress, say
from outpace.errors import ConfigError

if TYPE_CHECKING:
    from rich.progress import TaskID

    from outpace.train.plan import Report, TrainPlan


OutOption = Annotated[Path, typer.Option("--out", help="Folder of the head; continued if there.")]
TargetOption = Annotated[str, typer.Option("--target", "-t", help="The model to draft for.")]
PromptsOption = Annotated[
    Path | None, typer.Option(help="JSONL: answer these prompts instead of the model's own.")
]
ExcludeOption = Annotated[
    Path | None, typer.Option(help="JSONL: prompts that must not be trained on.")
]
TokensOption = Annotated[int, typer.Option(help="Size of the corpus.", min=1)]
MinutesOption = Annotated[
    float, typer.Option(help="For everything; 0 = as long as it takes.", min=0)
]
EpochsOption = Annotated[float, typer.Option(help="How often an answer is learned from.")]
StepsOption = Annotated[int, typer.Option(help="Of training, in place of --epochs.", min=0)]
ArchOption = Annotated[str, typer.Option(help="small, standard or large.")]
FeatureOption = Annotated[float, typer.Option(help="Disk space for hidden states, in GB.")]
SeedOption = Annotated[int, typer.Option(help="Same seed, same corpus and training.", min=0)]
ResumeOption = Annotated[bool, typer.Option(help="--no-resume refuses a folder that holds a run.")]


def train(
    out: OutOption,
    target: TargetOption = DEFAULT_MODEL,
    prompts: PromptsOption = None,
    exclude: ExcludeOption = None,
    tokens: TokensOption = 2_000_000,
    minutes: MinutesOption = 0.0,
    epochs: EpochsOption = 4.0,
    steps: StepsOption = 0,
    arch: ArchOption = "standard",
    feature_gb: FeatureOption = 40.0,
    seed: SeedOption = 0,
    resume: ResumeOption = True,
    threads: ThreadsOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one document.")] = False,
) -> int:
    """Train a drafter: the target writes text, and a small head learns to foretell it.

    Stop it with Ctrl-C; the same command goes on. Use the result with --drafter head:OUT.
    """
    from outpace.bench.workload import BUILT_IN
    from outpace.evaluate.data.load import BUILT_IN_FILE
    from outpace.train.corpus.prompts import prompt_hash, read_prompts
    from outpace.train.plan import TrainPlan

    if (out / "work" / "plan.json").exists() and not resume:
        raise ConfigError(f"{out} holds a run; name another folder, or leave --no-resume out")
    ours = (BUILT_IN, BUILT_IN_FILE)  # the prompts this package measures with
    known = [p for path in (*ours, *([exclude] if exclude else [])) for p in read_prompts(path)]
    plan = TrainPlan(
        tokens=tokens, minutes=minutes, epochs=epochs, steps=steps, seed=seed,
        arch=arch,
        max_feature_bytes=int(feature_gb * 2**30),
        prompts=tuple(read_prompts(prompts)) if prompts else (),
        excluded=frozenset(prompt_hash(text) for text in known),
    )  # fmt: skip
    try:
        found = _run(out, target, plan, threads)
    except KeyboardInterrupt:
        say("interrupted; the same command goes on from here")
        return 130
    if as_json:
        typer.echo(json.dumps({"out": str(out), **found}, indent=2))
    else:
        say(f"use it: outpace generate --model {target} --drafter head:{out} PROMPT")
        typer.echo(str(out))
    return 0


def _run(out: Path, target: str, plan: "TrainPlan", threads: int | None) -> dict[str, object]:
    from outpace.build import RuntimeChoice, load
    from outpace.models.pull import default_cache_dir
    from outpace.models.resolve import resolve
    from outpace.train.run import Run
    from outpace.train.target import read_target

    cache_dir = default_cache_dir(os.environ)
    with pull_progress() as progress:
        weights = read_target(resolve(target, cache_dir=cache_dir, progress=progress), cache_dir)
    choice = RuntimeChoice(runtime="native", threads=threads, hidden_layers=weights.taps)
    with load(target, drafter="none", choice=choice) as model, _bar() as tell:
        return Run(folder=out, plan=plan, model=model, weights=weights, tell=tell).run()


# Where no bar can be drawn, a line so often.
_LINE_EVERY_S = 30.0


@contextmanager
def _bar() -> "Iterator[Callable[[Report], None]]":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines()
        return
    columns = (
        TextColumn("{task.fields[phase]:10s}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console) as progress:
        tasks: dict[str, TaskID] = {}

        def tell(report: "Report") -> None:
            if report.phase not in tasks:
                tasks[report.phase] = progress.add_task("", total=1.0, phase=report.phase)
            progress.update(tasks[report.phase], completed=report.share, description=report.words)

        yield tell


def _lines() -> "Callable[[Report], None]":
    last = ("", 0.0)

    def tell(report: "Report") -> None:
        nonlocal last
        now = time.monotonic()
        if report.phase != last[0] or now - last[1] > _LINE_EVERY_S:
            last = (report.phase, now)
            say(f"{report.phase} {report.share:.0%}: {report.words}")

    return tell
