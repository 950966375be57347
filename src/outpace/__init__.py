"""outpace: language models that answer faster, without changing a single probability.

    import outpace
    model = outpace.load("smollm2-135m")
    print(model.generate("Explain tides in one paragraph.", max_tokens=120).text)

`load` opens a model by name, path or hub id; `wrap` takes one already in memory. Importing
outpace loads nothing heavy; the first `load` does.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outpace.api import Model
    from outpace.build import load, wrap
    from outpace.completion import Completion, Stats
    from outpace.core.sampling import Sampling
    from outpace.generation import Generation

__version__ = "0.1.0.dev0"

_WHERE = {
    "load": "outpace.build",
    "wrap": "outpace.build",
    "Model": "outpace.api",
    "Generation": "outpace.generation",
    "Completion": "outpace.completion",
    "Stats": "outpace.completion",
    "Sampling": "outpace.core.sampling",
}
__all__ = ["load", "wrap", "Model", "Generation", "Completion", "Stats", "Sampling"]


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module 'outpace' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_WHERE[name]), name)
