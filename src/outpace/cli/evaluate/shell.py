"""What the phases are given: models, keys, clock, progress; and errors as exit code 4."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec

from outpace.cli.terminal import say
from outpace.errors import CapacityError, ConfigError, RequestError

if TYPE_CHECKING:
    from outpace.api import Model
    from outpace.evaluate.measure.blocks import Tell
    from outpace.evaluate.plan.arms import Target
    from outpace.evaluate.steps.session import Shell
    from outpace.evaluate.study import Study
    from outpace.models.files import ModelFiles

P = ParamSpec("P")
EXIT_USAGE, EXIT_INTERRUPTED = 4, 130


def command(function: Callable[P, int]) -> Callable[P, int]:
    """A command whose mistakes of use are 4: 1 to 3 are verdicts."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> int:
        try:
            return function(*args, **kwargs)
        except (ConfigError, RequestError, CapacityError) as error:
            if os.environ.get("OUTPACE_DEBUG"):
                raise
            say(f"[bold red]{type(error).__name__}[/]: ", str(error))
            return EXIT_USAGE
        except KeyboardInterrupt:
            say("interrupted; everything measured is kept: the same command goes on from there")
            return EXIT_INTERRUPTED

    return wrapped


def shell_of(study: "Study") -> "Shell":
    """What the command line provides for a study."""
    from outpace.evaluate.arms.opening import Tools
    from outpace.evaluate.lineage import code
    from outpace.evaluate.steps.session import Shell
    from outpace.evaluate.study import LOGS

    return Shell(
        tools=Tools(
            open_model=open_target, environ=os.environ, logs=study.folder / LOGS, locate=locate
        ),
        manifest=manifest,
        now=lambda: datetime.now().astimezone(),
        watch=watch,
        program=code(),
    )


@contextmanager
def open_target(target: "Target", drafters: tuple[str, ...]) -> "Iterator[Model]":
    """The plan's model, opened once for all arms in this process."""
    from outpace.cli.options import LoadOptions, open_model

    options = LoadOptions(
        model=target.model, drafter="none", others=drafters, runtime=target.runtime,
        weights=target.weights, device=target.device, threads=target.threads,
    )  # fmt: skip
    with open_model(options) as model:
        yield model


@contextmanager
def watch(label: str, total: float) -> "Iterator[Tell]":
    """A bar with the time left, on a terminal."""
    from outpace.cli.figures import work_bar

    with work_bar(total) as advance:

        def tell(n: int, what: str) -> None:
            advance(float(n), f"{label}: {what}")

        yield tell


def manifest(ref: str) -> Mapping[str, object] | None:
    """Names and digests of a model's files, if they are on this disk or can be fetched."""
    from outpace.models import lineage
    from outpace.models.pull import default_cache_dir

    files = _files(ref)
    if files is None:
        return None
    return lineage.manifest(files, cache_dir=default_cache_dir(os.environ))


def locate(engine: str, ref: str) -> str:
    """What a server is told to load: engines that know no names of ours get a path."""
    if engine == "outpace":
        return ref
    files = _files(ref)
    if files is None:
        return ref
    if engine == "llama.cpp":
        if files.kind != "gguf":
            raise ConfigError(
                f"llama.cpp reads GGUF files; {ref} is {files.kind}: name a GGUF file"
            )
        return str(files.weights[0])
    return ref if files.kind == "gguf" else str(files.root)


def _files(ref: str) -> "ModelFiles | None":
    from outpace.models.pull import default_cache_dir
    from outpace.models.resolve import resolve

    try:
        return resolve(ref, cache_dir=default_cache_dir(os.environ))
    except ConfigError:
        return None


def plan_file(study: "Study", given: Path) -> Path:
    """The plan's own file, which may be in the study's folder."""
    from outpace.evaluate.study import PLAN

    return given if given.is_file() else study.folder / PLAN
