"""`outpace batch`: a file of requests to a file of answers, as often interrupted as one likes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outpace.cli.options import (
    DEFAULT_MODEL,
    DepthOption,
    DeviceOption,
    DrafterOption,
    LoadOptions,
    ModelOption,
    NodesOption,
    RuntimeOption,
    ThreadsOption,
    WeightsOption,
    open_model,
)
from outpace.cli.terminal import free_path, say

if TYPE_CHECKING:
    from outpace.batch.run import Progress


def batch(
    requests: Annotated[Path, typer.Argument(help="JSONL: custom_id, method, url, body.")],
    answers: Annotated[Path, typer.Argument(help="Where answers go; continued if it exists.")],
    model: ModelOption = DEFAULT_MODEL,
    drafter: DrafterOption = "auto",
    concurrency: Annotated[
        int, typer.Option("--concurrency", "-c", help="Requests at once.", min=1, max=1024)
    ] = 8,
    depth: DepthOption = None,
    nodes: NodesOption = None,
    runtime: RuntimeOption = "auto",
    weights: WeightsOption = "auto",
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> int:
    """Answer REQUESTS (OpenAI's batch format) into ANSWERS; run it again to continue.

    Wrong requests are answered with an error line. Exit code 0 = every line has its answer.
    """
    from outpace.batch.run import BatchRun

    free_path(answers)
    run = BatchRun(requests, answers)
    options = LoadOptions(
        model=model, drafter=drafter, runtime=runtime, weights=weights, device=device,
        threads=threads, depth=depth, nodes=nodes,
    )  # fmt: skip
    interrupted = False
    try:
        with open_model(options) as opened, _progress() as tell:
            try:
                with opened.serve() as service:
                    run.run(opened, service, concurrency=concurrency, tell=tell)
            except KeyboardInterrupt:
                interrupted = True
    finally:
        run.close()
    return _report(run.progress(), interrupted=interrupted)


def _report(at: "Progress", *, interrupted: bool) -> int:
    left = at.total - at.before - at.now
    if at.before:
        say(f"{at.before} lines were answered before")
    say(f"{at.now} answered now, {at.failed} of them with an error; {left} left")
    if interrupted:
        say("interrupted; run the same command again to continue")
    return 130 if interrupted else 0


@contextmanager
def _progress() -> "Iterator[Callable[[Progress], None]]":
    from outpace.cli.figures import work_bar

    with work_bar(1.0) as advance:
        shown = 0.0

        def tell(at: "Progress") -> None:
            nonlocal shown
            share = (at.before + at.now) / max(at.total, 1)
            advance(share - shown, f"{at.before + at.now}/{at.total}")
            shown = share

        yield tell
