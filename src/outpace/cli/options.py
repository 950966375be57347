"""Options that several commands share, and what they become."""

import gc
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outpace.core.sampling import RULES
from outpace.errors import ConfigError, RequestError

if TYPE_CHECKING:
    from outpace.api import Model
    from outpace.control.limits import Limits
    from outpace.text.grammar.spec import GrammarSpec

DEFAULT_MODEL = "smollm2-135m"

ModelOption = Annotated[
    str, typer.Option("--model", "-m", help="Catalog name, directory, GGUF file or hub id.")
]
DrafterOption = Annotated[
    str,
    typer.Option(
        help="auto, none, lookup, suffix, head[:FOLDER], mix:A+B, model:REF; see `outpace doctor`."
    ),
]
DepthOption = Annotated[int | None, typer.Option(help="Most guesses on one path.")]
NodesOption = Annotated[int | None, typer.Option(help="Most guesses per pass, over all paths.")]
RuntimeOption = Annotated[str, typer.Option(help="auto, native or transformers.")]
WeightsOption = Annotated[
    str, typer.Option(help="auto; native: fp32, bf16, q8, q4, q8-fine, q4-fine.")
]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
ThreadsOption = Annotated[int | None, typer.Option(help="CPU threads.", min=1, max=1024)]
SystemOption = Annotated[str | None, typer.Option(help="System message.")]
TemperatureOption = Annotated[float, typer.Option("--temperature", "-t", help="0 = likeliest.")]
TopPOption = Annotated[float, typer.Option(help="Nucleus; 1 = all.")]
TopKOption = Annotated[int, typer.Option(help="Likeliest k; 0 = all.")]
MinPOption = Annotated[float, typer.Option(help="Share of the likeliest; 0 = all.")]
SeedOption = Annotated[int | None, typer.Option(help="Same seed, same text.")]
RuleOption = Annotated[str | None, typer.Option(help=f"Acceptance rule: {', '.join(RULES)}.")]
StopOption = Annotated[list[str] | None, typer.Option(help="Stop before this string; repeatable.")]
JsonSchemaOption = Annotated[
    Path | None, typer.Option("--json-schema", help="The answer is JSON that this file describes.")
]
RegexOption = Annotated[str | None, typer.Option(help="The answer matches this, from end to end.")]
ChoiceOption = Annotated[list[str] | None, typer.Option(help="The answer is this; repeatable.")]
MaxTokensOption = Annotated[int, typer.Option("--max-tokens", "-n", help="Longest answer.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """How the model is opened. others: drafters it is asked for beside its own."""

    model: str
    drafter: str
    others: tuple[str, ...] = ()
    runtime: str = "auto"
    weights: str = "auto"
    device: str = "auto"
    threads: int | None = None
    depth: int | None = None
    nodes: int | None = None

    def limits(self) -> "Limits | None":
        """What --depth and --nodes ask for; None = the control decides."""
        from outpace.control.limits import Limits

        if self.depth is None and self.nodes is None:
            return None
        nodes = self.nodes if self.nodes is not None else self.depth or 0
        depth = self.depth if self.depth is not None else nodes
        return Limits(max_nodes=nodes, max_depth=depth, reason="limits given by --depth/--nodes")


def open_model(options: LoadOptions) -> "Model":
    """Load the model, showing a bar if it must be fetched first.

    What is loaded stays until the process ends, so the garbage collector need not look through it
    again and again: with torch loaded that takes some 50 ms, in the middle of somebody's answer.
    """
    from outpace.build import RuntimeChoice, load
    from outpace.cli.terminal import pull_progress
    from outpace.models.pull import default_cache_dir

    with pull_progress() as progress:
        model = load(
            options.model,
            drafter=options.drafter,
            others=options.others,
            choice=RuntimeChoice(
                runtime=options.runtime,
                weights=options.weights,
                device=options.device,
                threads=options.threads,
            ),
            limits=options.limits(),
            cache_dir=default_cache_dir(os.environ),
            progress=progress,
        )
    gc.collect()
    gc.freeze()
    return model


def whole_numbers(text: str, option: str) -> list[int]:
    """Numbers separated by commas.

    Raises:
        ConfigError: they are not.
    """
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(
            f"{option} is {text!r}; allowed: whole numbers separated by commas, such as 1,8"
        ) from None


def parse_bias(pairs: list[str] | None) -> Mapping[int, float]:
    """`ID=BIAS` pairs -> a mapping.

    Raises:
        RequestError: a pair that is not a token id and a number.
    """
    bias: dict[int, float] = {}
    for pair in pairs or ():
        token, _, value = pair.partition("=")
        try:
            bias[int(token)] = float(value)
        except ValueError:
            raise RequestError(
                f"--logit-bias {pair!r}; allowed: TOKEN_ID=NUMBER, for example 42=-5"
            ) from None
    return bias


def parse_grammar(
    json_schema: Path | None, regex: str | None, choice: list[str] | None
) -> "GrammarSpec | None":
    """--json-schema, --regex and --choice -> what the answer must be; None = any text.

    Raises:
        RequestError: a file that cannot be read or is no schema, or more than one of them.
    """
    from outpace.text.grammar import spec

    given = {"--json-schema": json_schema, "--regex": regex, "--choice": choice or None}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise RequestError(f"{' and '.join(names)} both shape the answer; give one of them")
    if json_schema is not None:
        try:
            text = json_schema.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise RequestError(f"--json-schema: cannot read {json_schema} ({error})") from None
        return spec.json_schema(text, name="--json-schema")
    if regex is not None:
        return spec.regex(regex, name="--regex")
    return spec.choice(choice, name="--choice") if choice else None
