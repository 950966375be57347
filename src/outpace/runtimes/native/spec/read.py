"""The door: one spec from whichever file describes the model, checked against its tensors."""

from outpace.errors import ModelCorrupt, ModelUnsupported
from outpace.models.weights import Weights
from outpace.runtimes.native.spec.config import spec_from_config
from outpace.runtimes.native.spec.gguf import spec_from_gguf
from outpace.runtimes.native.spec.model import ModelSpec
from outpace.runtimes.native.spec.names import Names, expected_shapes, names_of


def read_spec(weights: Weights) -> tuple[ModelSpec, Names]:
    """What the model is, and what its tensors are called.

    Raises:
        ModelUnsupported: an architecture, scaling or tensor the native runtime has no code for.
        ModelCorrupt: a tensor is missing or has another shape than the sizes say.
    """
    try:
        spec = spec_from_gguf(weights) if weights.gguf else spec_from_config(weights.config)
    except ValueError as error:
        raise ModelCorrupt(f"the model's sizes do not fit together: {error}") from None
    names = names_of(weights, spec)
    left = set(weights.names())
    for role, shape, needed in expected_shapes(spec):
        name = names.find(role)
        if name not in left:
            if needed:
                raise ModelCorrupt(f"tensor {name!r} is missing; it should have shape {shape}")
            continue
        left.remove(name)
        if weights.shape(name) != shape:
            raise ModelCorrupt(
                f"tensor {name!r} has shape {weights.shape(name)}; the model's sizes say {shape}"
            )
    strange = sorted(name for name in left if not names.ignorable(name))
    if strange:
        raise ModelUnsupported(
            f"{len(strange)} tensors have no place in a {spec.family} model as the native runtime "
            f"knows it, the first is {strange[0]!r}"
        )
    return spec, names
