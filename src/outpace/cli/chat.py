"""`outpace chat`: a conversation in the terminal, with what each answer cost."""

import sys
from typing import TYPE_CHECKING

import typer

from outpace.cli.options import (
    DEFAULT_MODEL,
    DepthOption,
    DeviceOption,
    DrafterOption,
    LoadOptions,
    MaxTokensOption,
    ModelOption,
    NodesOption,
    RuntimeOption,
    SeedOption,
    SystemOption,
    TemperatureOption,
    ThreadsOption,
    TopPOption,
    WeightsOption,
    open_model,
)
from outpace.cli.terminal import say
from outpace.errors import RequestError

if TYPE_CHECKING:
    from outpace.api import Message, Model
    from outpace.core.sampling import Sampling
    from outpace.generation import Generation

_HELP = "/clear forgets the conversation, /quit leaves; Ctrl-C stops an answer"


def chat(
    model: ModelOption = DEFAULT_MODEL,
    drafter: DrafterOption = "auto",
    max_tokens: MaxTokensOption = 512,
    temperature: TemperatureOption = 0.0,
    top_p: TopPOption = 1.0,
    seed: SeedOption = None,
    system: SystemOption = None,
    depth: DepthOption = None,
    nodes: NodesOption = None,
    runtime: RuntimeOption = "auto",
    weights: WeightsOption = "auto",
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> int:
    """Talk with a model. Lines from stdin, answers on stdout."""
    from outpace.core.sampling import Sampling

    sampling = Sampling(temperature=temperature, top_p=top_p, max_tokens=max_tokens, seed=seed)
    options = LoadOptions(
        model=model, drafter=drafter, runtime=runtime, weights=weights, device=device,
        threads=threads, depth=depth, nodes=nodes,
    )  # fmt: skip
    with open_model(options) as opened:
        say(f"[dim]{opened.name}, drafter {opened.drafter.name}; {_HELP}[/]")
        _converse(opened, sampling, system)
    return 0


def _converse(model: "Model", sampling: "Sampling", system: str | None) -> None:
    turns: list[Message] = []
    while (line := _ask()) is not None:
        if line in ("/quit", "/exit"):
            return
        if line == "/clear":
            turns = []
            say("[dim]forgotten[/]")
            continue
        if not line:
            continue
        asked: list[Message] = [*turns, {"role": "user", "content": line}]
        try:
            generation = model.start(asked, sampling, system=system)
        except RequestError as error:
            say("[bold red]refused[/]: ", str(error))
            continue
        _answer(generation)
        turns = [*asked, {"role": "assistant", "content": generation.text}]


def _ask() -> str | None:
    """The next line, or None at the end of the input."""
    if sys.stdin.isatty():
        say("[bold cyan]>[/] ")
    line = sys.stdin.readline()
    return line.strip() if line else None


def _answer(generation: "Generation") -> None:
    try:
        for piece in generation:
            typer.echo(piece, nl=False)
    except KeyboardInterrupt:
        generation.close()
    typer.echo()
    stats = generation.completion().stats
    say(
        f"[dim]{stats.completion_tokens} tokens, {stats.tokens_per_s:.1f} tokens/s, "
        f"{stats.acceptance_length:.2f} per pass[/]"
    )
