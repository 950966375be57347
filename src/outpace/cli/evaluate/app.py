"""`outpace evaluate`: from a locked plan to a verdict."""

import typer

from outpace.cli.evaluate import commands
from outpace.cli.evaluate.init import init
from outpace.cli.evaluate.reporting import compare, report

app = typer.Typer(
    name="evaluate",
    no_args_is_help=True,
    help="Should this configuration be adopted for this traffic? A locked plan, and a verdict.",
    epilog="Exit codes: 0 supported, 1 refuted, 2 inconclusive, 3 invalid, 4 wrong use.",
)
app.command()(init)
for _command in (commands.lint, commands.lock, commands.verify, commands.tune):
    app.command()(_command)
app.command(name="test")(commands.measure)
for _command in (commands.confirm, commands.load, report, commands.status, commands.run):
    app.command()(_command)
app.command()(compare)
app.command()(commands.deviate)
