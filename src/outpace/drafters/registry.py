"""Drafters by name: `make("mix:lookup+suffix", context)`.

A new drafter is one file and one line in `DRAFTERS`, or, outside this package, one entry point in
the group `outpace.drafters`. Either names a factory, `module:function`, that gets what stands
after the colon of the spec and the `Context`, and returns a `Drafter`. Nothing is imported before
it is asked for.

    none                  guess nothing
    lookup                continuations of earlier occurrences in this text
    suffix                continuations by frequency, in this text and in earlier answers
    head, head:PATH       a trained head: the one that comes for these weights, or a folder's
    auto                  the best of what needs no second model: mix:lookup+suffix, and +head
                          where one comes for these weights
    mix:A+B               several drafters, by measured record
    model:REF             a smaller model: a name, directory, GGUF file or hub id
    synthetic:KIND        acceptance as wished, for tests and evaluation only
"""

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from outpace.core.draft import Drafter
from outpace.core.score import Runtime, Traits
from outpace.errors import ConfigError

if TYPE_CHECKING:
    from outpace.drafters.head.factory import CompileHead
    from outpace.drafters.synthetic import Peek

DRAFTERS: dict[str, str] = {
    "none": "outpace.drafters.registry:none",
    "lookup": "outpace.drafters.registry:lookup",
    "suffix": "outpace.drafters.registry:suffix",
    "head": "outpace.drafters.head.factory:head",
    "mix": "outpace.drafters.registry:mix",
    "auto": "outpace.drafters.registry:auto",
    "model": "outpace.drafters.registry:model",
    "synthetic": "outpace.drafters.registry:synthetic",
}
ENTRY_POINTS = "outpace.drafters"
_AUTO = "lookup+suffix"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A model opened to guess: its runtime, and the bytes of each token id it has."""

    runtime: Runtime
    vocabulary: Seq[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What factories may need to know; drafters themselves never load or configure anything.

    target, vocabulary: the model guessed for, and the bytes of each of its token ids. load: opens
    a model by reference. compile_head: runs a head's matrices faster than Python can (see
    `drafters/head/steps.py`). peek: what synthetic drafters may see of the target; None refuses
    them, so that only tests and evaluations that pass it can have one.
    """

    target: Traits | None = None
    vocabulary: Seq[bytes] | None = None
    load: Callable[[str], Loaded] | None = None
    compile_head: "CompileHead | None" = None
    peek: "Peek | None" = None


Factory = Callable[[str, Context], Drafter]


def names() -> list[str]:
    """Every registered name, those of other packages included."""
    return sorted({*DRAFTERS, *(point.name for point in entry_points(group=ENTRY_POINTS))})


def make(spec: str, context: Context | None = None) -> Drafter:
    """The drafter that `spec` names: `name` or `name:argument`.

    Raises:
        ConfigError: an unknown name (the closest are named), or an argument it cannot take.
    """
    name, _, argument = spec.strip().partition(":")
    return _factory(name)(argument, context or Context())


def check_names(*specs: str) -> None:
    """Refuse unknown drafters before anything heavy is loaded.

    Raises:
        ConfigError: as `make` would, for the names alone.
    """
    for spec in specs:
        _factory(spec.strip().partition(":")[0])


def hidden_layers(specs: Iterable[str], digest: str) -> tuple[int, ...]:
    """Layers of the target whose hidden states these drafters read; it is opened with them.

    digest: of the target's weights.

    Raises:
        ConfigError: a head that cannot be read, or two that read different layers.
    """
    specs = tuple(specs)
    found = {taps for spec in specs for taps in _read_layers(spec, digest) if taps}
    if len(found) > 1:
        raise ConfigError(
            f"the heads of {', '.join(specs)} read different layers: {sorted(found)}; use one"
        )
    return found.pop() if found else ()


def _read_layers(spec: str, digest: str) -> Iterable[tuple[int, ...]]:
    from outpace.drafters.head.factory import layers, shipped_layers

    name, _, argument = spec.strip().partition(":")
    if name == "mix":
        for part in argument.split("+"):
            yield from _read_layers(part, digest)
    elif name == "auto":
        yield shipped_layers(digest)
    elif name == "head":
        yield layers(argument, digest)


def _factory(name: str) -> Factory:
    path = DRAFTERS.get(name)
    if path is None:
        points = [p for p in entry_points(group=ENTRY_POINTS) if p.name == name]
        if not points:
            known = names()
            close = get_close_matches(name, known, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(close)}?" if close else "use one of these"
            raise ConfigError(f"no drafter {name!r}; there are {', '.join(known)}; {hint}")
        path = points[0].value
    return imported(name, path)


def imported(name: str, path: str) -> Factory:
    """The factory at `module:function`.

    Raises:
        ConfigError: there is none.
    """
    module, _, attribute = path.partition(":")
    try:
        factory: Factory = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"drafter {name!r} is registered as {path!r}, which cannot be imported: {error}; "
            f"install its package, or mend its entry"
        ) from error
    return factory


def _no_argument(name: str, argument: str) -> None:
    if argument:
        raise ConfigError(f"drafter {name!r} takes no argument, got {argument!r}; write {name!r}")


def none(argument: str, context: Context) -> Drafter:  # noqa: ARG001 - the factories' signature
    """Guess nothing."""
    from outpace.drafters.none import NoDrafter

    _no_argument("none", argument)
    return NoDrafter()


def lookup(argument: str, context: Context) -> Drafter:  # noqa: ARG001 - the factories' signature
    """Continuations of earlier occurrences in this text."""
    from outpace.drafters.lookup import LookupDrafter

    _no_argument("lookup", argument)
    return LookupDrafter()


def suffix(argument: str, context: Context) -> Drafter:  # noqa: ARG001 - the factories' signature
    """Frequent continuations, from this text and from earlier answers."""
    from outpace.drafters.suffix.drafter import SuffixDrafter

    _no_argument("suffix", argument)
    return SuffixDrafter()


def mix(argument: str, context: Context) -> Drafter:
    """Several drafters, separated by +; a mix among them is unpacked."""
    from outpace.drafters.mix.drafter import MixDrafter

    made = [make(spec, context) for spec in argument.split("+")] if argument else []
    sources: list[Drafter] = []
    for drafter in made:
        sources.extend(drafter.sources if isinstance(drafter, MixDrafter) else [drafter])
    return MixDrafter(sources)


def auto(argument: str, context: Context) -> Drafter:
    """The best mix that needs no second model."""
    from outpace.drafters.head.factory import comes_with_head
    from outpace.drafters.mix.drafter import MixDrafter

    _no_argument("auto", argument)
    specs = [*_AUTO.split("+"), *(["head"] if comes_with_head(context.target) else [])]
    return MixDrafter([make(spec, context) for spec in specs], name="auto")


def model(argument: str, context: Context) -> Drafter:
    """A smaller model, by reference."""
    from outpace.drafters.model import ModelConfig, ModelDrafter
    from outpace.drafters.translate import dictionary

    if not argument:
        raise ConfigError("drafter 'model' needs a model to guess with; write model:NAME")
    if context.target is None or context.vocabulary is None or context.load is None:
        raise ConfigError(
            f"drafter 'model:{argument}' needs to know the target's vocabulary and how to load "
            "models, and was given neither; pass them in the context"
        )
    loaded = context.load(argument)
    return ModelDrafter(
        loaded.runtime,
        dictionary(
            target=context.vocabulary,
            model=loaded.vocabulary[: loaded.runtime.traits.vocab_size],
            vocab_size=context.target.vocab_size,
        ),
        ModelConfig(eos_ids=context.target.eos_ids),
        name=f"model:{argument}",
    )


def synthetic(argument: str, context: Context) -> Drafter:
    """Acceptance as wished; only where the caller lets it peek at the target."""
    from outpace.drafters.synthetic import SyntheticDrafter

    if context.peek is None:
        raise ConfigError(
            f"drafter 'synthetic:{argument}' peeks at the target to force its acceptance; it is "
            "for tests and evaluations, and refused here; use 'auto'"
        )
    return SyntheticDrafter(context.peek, argument)
