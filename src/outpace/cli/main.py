"""`outpace`: the commands, and the one place where an exception becomes a line and an exit code.

stdout is the result, stderr the talk. Exit codes: 0 done; 1 try again later or a check that does
not hold; 2 the request or the configuration is wrong; 70 a bug in outpace; 130 interrupted.
"""

import os
import sys
import traceback
from typing import Annotated

import typer

from outpace import __version__
from outpace.cli.batch import batch
from outpace.cli.bench import bench
from outpace.cli.chat import chat
from outpace.cli.check_endpoint import check_endpoint
from outpace.cli.doctor import doctor
from outpace.cli.evaluate.app import app as evaluate
from outpace.cli.evaluate.shell import EXIT_USAGE
from outpace.cli.explain import explain
from outpace.cli.generate import generate
from outpace.cli.pull import pull
from outpace.cli.replay import replay
from outpace.cli.serve import serve
from outpace.cli.terminal import say
from outpace.cli.train import train
from outpace.errors import (
    CapacityError,
    ConfigError,
    ContractError,
    OutpaceError,
    RequestError,
    TraceError,
)

# Typer's wrong arguments, by the class that has their messages: click's own or typer's copy of it.
_WRONG_USE: type[Exception] = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)

app = typer.Typer(
    name="outpace",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Faster text from language models, without changing a single probability.",
)
for command in (
    *(generate, chat, serve, pull, train, batch, bench, replay, explain, check_endpoint, doctor),
):
    app.command()(command)
app.add_typer(evaluate, name="evaluate")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"outpace {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Options that belong to no command."""


def exit_code(error: OutpaceError) -> int:
    """What the shell is told."""
    if isinstance(error, (ConfigError, RequestError)):
        return 2
    if isinstance(error, ContractError):
        return 70
    return 1 if isinstance(error, (CapacityError, TraceError)) else 70


def main() -> None:
    """Run the command line; never shows a traceback unless OUTPACE_DEBUG is set."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets a replacement, not a crash.
        getattr(stream, "reconfigure", lambda **_: None)(errors="replace")
    try:
        code = app(standalone_mode=False)
    except typer.Abort:
        sys.exit(130)
    except _WRONG_USE as error:
        error.show()  # type: ignore[attr-defined]
        sys.exit(EXIT_USAGE if sys.argv[1:2] == ["evaluate"] else 2)  # there, 2 is a verdict
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OutpaceError as error:
        _tell(error)
        sys.exit(exit_code(error))
    except Exception as error:
        _tell(error)
        say("this is a bug in outpace; OUTPACE_DEBUG=1 shows where. Please report it.")
        sys.exit(70)
    sys.exit(code if isinstance(code, int) else 0)


def _tell(error: Exception) -> None:
    if os.environ.get("OUTPACE_DEBUG"):
        traceback.print_exception(error)
    name = type(error).__name__
    say(f"[bold red]{name}[/]: ", str(error))
