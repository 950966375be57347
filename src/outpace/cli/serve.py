"""`outpace serve`: OpenAI's API over HTTP, from flags, environment variables and a TOML file."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from outpace.cli.options import DEFAULT_MODEL, LoadOptions, open_model
from outpace.cli.terminal import say
from outpace.config import Found, Key, resolve, spell
from outpace.errors import ConfigError

if TYPE_CHECKING:
    from outpace.server.settings import Settings
    from outpace.server.telemetry.trace import Telemetry

_KEY_VARIABLE: Final = "OUTPACE_API_KEY"

KEYS: Final = (
    Key(name="model", kind="text", default=DEFAULT_MODEL, meaning="catalog name, path or hub id"),
    Key(name="drafter", kind="text", default="auto", meaning="what guesses; see outpace doctor"),
    Key(name="runtime", kind="text", default="auto", meaning="auto, native or transformers"),
    Key(name="weights", kind="text", default="auto", meaning="auto, or a format of the runtime"),
    Key(name="device", kind="text", default="auto", meaning="auto, cpu or cuda"),
    Key(name="threads", kind="number", default=None, meaning="CPU threads"),
    Key(name="depth", kind="number", default=None, meaning="most guesses on one path"),
    Key(name="nodes", kind="number", default=None, meaning="most guesses per pass, over all paths"),
    Key(name="host", kind="text", default="127.0.0.1", meaning="address to listen on"),
    Key(name="port", kind="number", default=8000, meaning="0 takes any free one"),
    Key(name="api_key_file", kind="text", default=None, meaning="API keys, one a line"),
    Key(name="allow_unauthenticated", kind="switch", default=False,
        meaning="no key, though other machines can reach it"),
    Key(name="allow_unknown_fields", kind="switch", default=False,
        meaning="ignore fields nobody knows"),
    Key(name="metrics", kind="text", default="summary",
        meaning="none, summary or detailed: what a response says of its speculation"),
    Key(name="log_level", kind="text", default="info", meaning="debug, info, warning or error"),
    Key(name="log_prompts", kind="switch", default=False, meaning="logs contain request bodies"),
    Key(name="drain_s", kind="seconds", default=30.0, meaning="time to finish after SIGTERM"),
    Key(name="piece_s", kind="seconds", default=0.025, meaning="least time between stream pieces"),
    Key(name="max_body_bytes", kind="number", default=8 << 20, meaning="largest request"),
    Key(name="max_prompt_tokens", kind="number", default=None, meaning="longest prompt"),
    Key(name="max_choices", kind="number", default=64, meaning="most answers of one request"),
    Key(name="max_top_logprobs", kind="number", default=20, meaning="most alternatives per token"),
    Key(name="max_grammar_bytes", kind="number", default=128 << 10,
        meaning="largest schema, regex or grammar"),
    Key(name="max_grammar_s", kind="seconds", default=5.0, meaning="longest time to compile one"),
    Key(name="max_in_flight", kind="number", default=128, meaning="requests of a key at a time"),
    Key(name="otlp_endpoint", kind="text", default=None,
        meaning="collector that gets spans, as http://127.0.0.1:4318; needs outpace[otel]"),
    Key(name="requests_per_minute", kind="number", default=0, meaning="of a key; 0 = any number"),
)  # fmt: skip
_OTEL_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_OTEL_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
_OTEL_PROTOCOL: Final = "http/protobuf"
_LEVELS: Final = ("debug", "info", "warning", "error")


def serve(
    model: Annotated[str | None, typer.Option("--model", "-m")] = None,
    drafter: Annotated[str | None, typer.Option()] = None,
    runtime: Annotated[str | None, typer.Option()] = None,
    weights: Annotated[str | None, typer.Option()] = None,
    device: Annotated[str | None, typer.Option()] = None,
    threads: Annotated[int | None, typer.Option(min=1, max=1024)] = None,
    depth: Annotated[int | None, typer.Option()] = None,
    nodes: Annotated[int | None, typer.Option()] = None,
    host: Annotated[str | None, typer.Option()] = None,
    port: Annotated[int | None, typer.Option()] = None,
    api_key_file: Annotated[str | None, typer.Option()] = None,
    allow_unauthenticated: Annotated[bool | None, typer.Option("--allow-unauthenticated")] = None,
    allow_unknown_fields: Annotated[bool | None, typer.Option("--allow-unknown-fields")] = None,
    metrics: Annotated[str | None, typer.Option()] = None,
    log_level: Annotated[str | None, typer.Option()] = None,
    log_prompts: Annotated[bool | None, typer.Option("--log-prompts")] = None,
    drain_s: Annotated[float | None, typer.Option()] = None,
    piece_s: Annotated[float | None, typer.Option()] = None,
    max_body_bytes: Annotated[int | None, typer.Option()] = None,
    max_prompt_tokens: Annotated[int | None, typer.Option()] = None,
    max_choices: Annotated[int | None, typer.Option()] = None,
    max_top_logprobs: Annotated[int | None, typer.Option()] = None,
    max_grammar_bytes: Annotated[int | None, typer.Option()] = None,
    max_grammar_s: Annotated[float | None, typer.Option()] = None,
    max_in_flight: Annotated[int | None, typer.Option()] = None,
    requests_per_minute: Annotated[int | None, typer.Option()] = None,
    otlp_endpoint: Annotated[str | None, typer.Option()] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with a table `serve`.")] = None,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print what would be used, and stop.")
    ] = False,
) -> int:
    """Serve a model over HTTP. Flags win over OUTPACE_* variables, those over the TOML file.

    `--print-config` explains every key.
    """
    flags = dict(locals())
    for name in ("config", "print_config"):
        del flags[name]
    found = resolve(KEYS, flags=flags, environ=os.environ, file=config)
    settings = settings_of(found)
    if print_config:
        typer.echo(spell(KEYS, found), nl=False)
        return 0
    _run(found, settings)
    return 0


def settings_of(found: dict[str, Found]) -> "Settings":
    """The server's part of a configuration.

    Raises:
        ConfigError: naming the key.
    """
    from outpace.server.settings import Bounds, Settings

    get: dict[str, Any] = {name: entry.value for name, entry in found.items()}
    if get["log_level"] not in _LEVELS:
        raise ConfigError(f"log_level is {get['log_level']!r}; allowed: {', '.join(_LEVELS)}")
    return Settings(
        host=get["host"],
        port=get["port"],
        api_keys=read_keys(get["api_key_file"], os.environ.get(_KEY_VARIABLE)),
        allow_unauthenticated=get["allow_unauthenticated"],
        unknown_fields=get["allow_unknown_fields"],
        metrics=get["metrics"],
        log_prompts=get["log_prompts"],
        drain_s=get["drain_s"],
        piece_s=get["piece_s"],
        bounds=Bounds(
            body_bytes=get["max_body_bytes"],
            prompt_tokens=get["max_prompt_tokens"],
            choices=get["max_choices"],
            top_logprobs=get["max_top_logprobs"],
            grammar_bytes=get["max_grammar_bytes"],
            grammar_s=get["max_grammar_s"],
            in_flight=get["max_in_flight"],
            requests_per_minute=get["requests_per_minute"],
        ),
    )


def read_keys(file: str | None, variable: str | None) -> tuple[str, ...]:
    """Keys from a file (one a line; # begins a comment) and from the environment.

    Raises:
        ConfigError: an unreadable or empty file.
    """
    keys = [variable.strip()] if variable and variable.strip() else []
    if file is not None:
        try:
            lines = Path(file).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"api_key_file: cannot read {file}: {error}") from None
        own = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        if not own:
            raise ConfigError(f"api_key_file: {file} has no key; write one a line")
        keys += own
    return tuple(keys)


def open_telemetry(endpoint: str | None, environ: Mapping[str, str]) -> "Telemetry | None":
    """Spans to a collector, where the configuration or OpenTelemetry's own variables name one.

    Raises:
        ConfigError: one was named in the configuration, and the packages are not there; or it
            cannot be spoken to.
    """
    off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    off = off or environ.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp"
    named = any(environ.get(name) for name in _OTEL_ENDPOINTS) and not off
    if endpoint is None and not named:
        return None
    for name in _OTEL_PROTOCOLS:
        if environ.get(name, _OTEL_PROTOCOL) != _OTEL_PROTOCOL:
            raise ConfigError(f"{name} is {environ[name]!r}; this server speaks {_OTEL_PROTOCOL}")
    try:
        from outpace.server.telemetry.trace import telemetry_to
    except ImportError as error:
        missing = (
            f"spans need packages that are not there ({error.name}); pip install outpace[otel]"
        )
        if endpoint is not None:
            raise ConfigError(f"otlp_endpoint: {missing}") from None
        say("", missing)
        return None
    return telemetry_to(endpoint)


def _run(found: dict[str, Found], settings: "Settings") -> None:
    get: dict[str, Any] = {name: entry.value for name, entry in found.items()}
    options = LoadOptions(
        model=get["model"], drafter=get["drafter"], runtime=get["runtime"], weights=get["weights"],
        device=get["device"], threads=get["threads"], depth=get["depth"], nodes=get["nodes"],
    )  # fmt: skip
    from outpace.server.log import log_to_stderr
    from outpace.server.run import serve as run

    log_to_stderr(get["log_level"])
    telemetry = open_telemetry(get["otlp_endpoint"], os.environ)
    with open_model(options) as model:
        traits = model.runtime.traits
        say(
            f"[bold]{model.name}[/] on {traits.name}, drafter [bold]{model.drafter.name}[/], "
            f"context {traits.context_tokens} tokens, "
            + (f"{len(settings.api_keys)} API keys" if settings.api_keys else "no API key")
        )
        run(
            model,
            model.serve(),
            settings,
            ready=lambda url: say(f"listening on {url}/v1"),
            telemetry=telemetry,
        )
