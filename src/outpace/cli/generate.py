"""`outpace generate`: one answer, and what it cost."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from outpace.cli.options import (
    DEFAULT_MODEL,
    ChoiceOption,
    DepthOption,
    DeviceOption,
    DrafterOption,
    JsonSchemaOption,
    LoadOptions,
    MaxTokensOption,
    MinPOption,
    ModelOption,
    NodesOption,
    RegexOption,
    RuleOption,
    RuntimeOption,
    SeedOption,
    StopOption,
    SystemOption,
    TemperatureOption,
    ThreadsOption,
    TopKOption,
    TopPOption,
    WeightsOption,
    open_model,
    parse_bias,
    parse_grammar,
)
from outpace.cli.terminal import free_path, print_json, read_stdin, say
from outpace.errors import RequestError

if TYPE_CHECKING:
    from outpace.api import Model
    from outpace.completion import Completion, Stats
    from outpace.core.sampling import Rule, Sampling
    from outpace.engine.trace import TraceWriter
    from outpace.generation import Generation
    from outpace.text.grammar.spec import GrammarSpec


def generate(
    prompt: Annotated[str | None, typer.Argument(help="The prompt; - reads stdin.")] = None,
    model: ModelOption = DEFAULT_MODEL,
    drafter: DrafterOption = "auto",
    max_tokens: MaxTokensOption = 256,
    temperature: TemperatureOption = 0.0,
    top_p: TopPOption = 1.0,
    top_k: TopKOption = 0,
    min_p: MinPOption = 0.0,
    repetition_penalty: Annotated[float, typer.Option(help="1 = none.")] = 1.0,
    presence_penalty: Annotated[float, typer.Option(help="0 = none.")] = 0.0,
    frequency_penalty: Annotated[float, typer.Option(help="0 = none.")] = 0.0,
    logit_bias: Annotated[
        list[str] | None, typer.Option(help="TOKEN_ID=NUMBER; repeatable.")
    ] = None,
    min_tokens: Annotated[int, typer.Option(help="No end before this many tokens.")] = 0,
    seed: SeedOption = None,
    stop: StopOption = None,
    ignore_eos: Annotated[
        bool, typer.Option("--ignore-eos", help="Go on past the model's end of text.")
    ] = False,
    json_schema: JsonSchemaOption = None,
    regex: RegexOption = None,
    choice: ChoiceOption = None,
    raw: Annotated[bool, typer.Option("--raw", help="No chat template.")] = False,
    system: SystemOption = None,
    rule: RuleOption = None,
    depth: DepthOption = None,
    nodes: NodesOption = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Also decode without guesses, and compare.")
    ] = False,
    trace: Annotated[Path | None, typer.Option(help="Write every round's five stages.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
    runtime: RuntimeOption = "auto",
    weights: WeightsOption = "auto",
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> int:
    """Answer PROMPT. The text goes to stdout, the account of it to stderr."""
    from outpace.core.sampling import Sampling

    sampling = Sampling(
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        presence_penalty=presence_penalty,
        frequency_penalty=frequency_penalty,
        logit_bias=parse_bias(logit_bias),
        min_tokens=min_tokens,
        max_tokens=max_tokens,
        stop=tuple(stop or ()),
        ignore_eos=ignore_eos,
        seed=seed,
        rule=cast("Rule | None", rule),  # Sampling checks it
    )
    if prompt is None:
        raise RequestError("no prompt; give one as an argument, or - to read it from stdin")
    text = read_stdin() if prompt == "-" else prompt
    if not text:
        raise RequestError("the prompt is empty; give at least one character")
    if trace is not None:
        free_path(trace)
    grammar = parse_grammar(json_schema, regex, choice)
    options = LoadOptions(
        model=model, drafter=drafter, runtime=runtime, weights=weights, device=device,
        threads=threads, depth=depth, nodes=nodes,
    )  # fmt: skip
    with open_model(options) as opened:
        job = _Job(opened, text, sampling, grammar, raw=raw, system=system, trace=trace)
        return job.run(compare=compare, as_json=as_json)


class _Job:
    """One prompt on one open model."""

    def __init__(
        self, model: "Model", text: str, sampling: "Sampling", grammar: "GrammarSpec | None", *,
        raw: bool, system: str | None, trace: Path | None,
    ) -> None:  # fmt: skip
        self._model = model
        self._ids = model.encode(text, raw=raw, system=system)
        self._sampling, self._grammar = sampling, grammar
        self._trace = trace

    def run(self, *, compare: bool, as_json: bool) -> int:
        if compare:
            self._warm_up()
        done, interrupted = self._answer(echo=not as_json)
        plain = None
        if compare and not interrupted:
            plain, interrupted = self._answer(echo=False, plain_seed=done.seed)
        if as_json:
            document = to_document(done)
            if plain is not None:
                document |= comparison(done, plain)
            print_json(document)
        else:
            _account(done)
            if plain is not None:
                _verdict(done, plain)
        return 130 if interrupted else 0

    def _answer(self, *, echo: bool, plain_seed: int | None = None) -> tuple["Completion", bool]:
        from outpace.control.limits import OFF

        plain = plain_seed is not None
        writer = self._writer() if not plain else None
        try:
            generation = self._model.start(
                self._ids, self._sampling, grammar=self._grammar,
                limits=OFF if plain else None, trace=writer,
            )  # fmt: skip
            interrupted = _write_out(generation, echo=echo)
        finally:
            if writer is not None:
                writer.close()
        return generation.completion(), interrupted

    def _writer(self) -> "TraceWriter | None":
        if self._trace is None:
            return None
        from datetime import UTC, datetime

        from outpace import __version__
        from outpace.engine.trace import About, TraceWriter

        about = About(
            outpace=__version__,
            model=self._model.name,
            traits=self._model.runtime.traits,
            drafter=self._model.drafter.name,
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        return TraceWriter(self._trace, about, clock=time.perf_counter)

    def _warm_up(self) -> None:
        """Both arms pay for first-time work once, before either is timed."""
        from dataclasses import replace

        from outpace.control.limits import OFF

        for limits in (None, OFF):
            sampling = replace(self._sampling, max_tokens=8, min_tokens=0)
            for _ in self._model.start(self._ids, sampling, grammar=self._grammar, limits=limits):
                pass


def _write_out(generation: "Generation", *, echo: bool) -> bool:
    """Stream the text to stdout; True when Ctrl-C ended it."""
    try:
        for piece in generation:
            if echo:
                typer.echo(piece, nl=False)
    except KeyboardInterrupt:
        generation.close()
        return True
    finally:
        if echo:
            typer.echo()
    return False


def to_document(done: "Completion") -> dict[str, object]:
    """The --json document; its schema is `generate.schema.json`."""
    stats = done.stats
    return {
        "text": done.text,
        "token_ids": list(done.token_ids),
        "finish_reason": done.finish_reason,
        "prompt_tokens": done.prompt_tokens,
        "completion_tokens": done.completion_tokens,
        "model": done.model,
        "runtime": done.runtime,
        "drafter": done.drafter,
        "rule": done.rule,
        "seed": done.seed,
        "promise": done.promise,
        "rounds": stats.rounds,
        "drafted": stats.drafted,
        "kept": stats.kept,
        "acceptance_length": stats.acceptance_length,
        "tokens_per_s": stats.tokens_per_s,
        "seconds": asdict(stats.seconds),
    }


def comparison(done: "Completion", plain: "Completion") -> dict[str, object]:
    """What --compare adds: the plain run, whether the texts are equal, and the ratio."""
    return {
        "plain": to_document(plain),
        "same_text": done.token_ids == plain.token_ids,
        "speedup": done.stats.tokens_per_s / plain.stats.tokens_per_s,
    }


def _account(done: "Completion") -> None:
    stats = done.stats
    say(
        f"[dim]{done.completion_tokens} tokens, {stats.tokens_per_s:.1f} tokens/s, "
        f"{stats.acceptance_length:.2f} tokens per pass, kept {stats.kept} of {stats.drafted} "
        f"guesses ({done.drafter}, rule {done.rule}), {_shares(stats)}, "
        f"ended by {done.finish_reason}[/]"
    )


def _shares(stats: "Stats") -> str:
    seconds = stats.seconds
    whole = max(seconds.total - seconds.load, 1e-9)
    names = ("prefill", "draft", "score", "accept", "resample", "other")
    return ", ".join(f"{name} {getattr(seconds, name) / whole:.0%}" for name in names)


def _verdict(done: "Completion", plain: "Completion") -> None:
    same = done.token_ids == plain.token_ids
    ratio = done.stats.tokens_per_s / plain.stats.tokens_per_s
    if same:
        words = "[bold green]the same text[/]"
    elif done.promise == "same law":
        words = "another text of the same law (no seed was given, so each run draws anew)"
    else:
        words = (
            "[bold red]another text[/]"
            if done.promise == "same text"
            else ("another text: rows of this runtime depend on their neighbours, so ties can tip")
        )
    say(
        f"plain decoding: {plain.stats.tokens_per_s:.1f} tokens/s and {words}; "
        f"with guesses [bold]{ratio:.2f} x[/] as fast"
    )
