"""Makes the drafter that `head[:PATH][:draw|:likeliest]` names, and says which layers it reads."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from outpace.core.score import Traits
from outpace.drafters.head.drafter import HeadDrafter, HeadOptions
from outpace.drafters.head.files import EPS, folder_of, read_config, read_head, shipped
from outpace.drafters.head.steps import NumpySteps, Steps
from outpace.drafters.registry import Context
from outpace.errors import CapabilityError, ConfigError


class CompileHead(Protocol):
    """Makes `Steps` of a head's matrices; None where it cannot."""

    def __call__(
        self,
        matrices: Mapping[str, tuple[str, int, int, NDArray[np.uint8]]],
        ids_D: NDArray[np.int32],
        *,
        n_taps: int,
        eps: float,
    ) -> Steps | None: ...


def _parsed(argument: str) -> tuple[str, HeadOptions]:
    """A folder, and `draw` or `likeliest` after it or alone."""
    folder, _, word = argument.rpartition(":")
    if word == "draw":
        return folder, HeadOptions(draws=True)
    if word == "likeliest":
        return folder, HeadOptions(couples=False)
    return argument, HeadOptions()


def layers(argument: str, digest: str) -> tuple[int, ...]:
    """Layers that the head reads which `argument` names for a target."""
    return read_config(folder_of(_parsed(argument)[0], digest)).shape.taps


def shipped_layers(digest: str) -> tuple[int, ...]:
    """Layers of the head that comes for these weights; empty where none does."""
    folder = shipped(digest)
    return read_config(folder).shape.taps if folder is not None else ()


def comes_with_head(target: Traits | None) -> bool:
    """Whether a head comes for this target, and the target shows what it reads."""
    folder = shipped(target.digest) if target is not None and target.n_hidden else None
    if target is None or folder is None:
        return False
    shape = read_config(folder).shape
    return target.n_hidden == shape.hidden * len(shape.taps)


def head(argument: str, context: Context) -> HeadDrafter:
    """The head in a folder, or the one that comes with the package.

    Raises:
        HeadMismatch: it was trained for another target, or none comes for this one.
        CapabilityError: the target does not return the hidden states it reads.
    """
    name = f"head:{argument}" if argument else "head"
    if context.target is None:
        raise ConfigError(f"drafter {name!r} needs to know its target; pass it in the context")
    folder, options = _parsed(argument)
    found = read_head(folder_of(folder, context.target.digest))
    found.check_target(context.target.digest)
    shape = found.config.shape
    width = shape.hidden * len(shape.taps)
    if context.target.n_hidden != width:
        raise CapabilityError(
            f"drafter {name!r} reads hidden states of width {width}, and this runtime returns "
            f"{context.target.n_hidden}; open the model with this drafter, on the native runtime"
        )
    steps: Steps | None = None
    if context.compile_head is not None:
        n_taps = len(shape.taps)
        steps = context.compile_head(found.matrices, found.ids_D, n_taps=n_taps, eps=EPS)
    return HeadDrafter(found, steps or NumpySteps(found), options, name=name)
