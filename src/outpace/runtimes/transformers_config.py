"""What a transformers configuration says about a model, and which models are refused for it.

A rejected guess must be forgotten without a trace. Layers that keep every token's key and value
can do that. Layers that fold the past into one state (Mamba, linear attention, short convolutions)
cannot, and they are refused here, by kind and index, before any weight is read.
"""

from typing import Any, Final

from outpace.errors import ModelUnsupported
from outpace.runtimes.transformers_pass import Layout

_FORGETS: Final = ("full_attention", "sliding_attention")
_WHY: Final = {
    "linear_attention": "folds the past into one state",
    "conv": "folds the past into one state",
    "hybrid": "folds part of the past into one state",
    "hybrid_sliding": "folds part of the past into one state",
}
_LENGTHS: Final = (
    "max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length",
)  # fmt: skip
_NO_LIMIT_TOKENS: Final = 2**20  # position-free models (ALiBi) name no longest text


def read_layout(config: Any) -> Layout:
    """The kinds of a model's attention layers.

    Raises:
        ModelUnsupported: a layer that cannot forget, or an encoder-decoder.
    """
    name = type(config).__name__
    text = config.get_text_config(decoder=True)
    if getattr(config, "is_encoder_decoder", False):
        raise ModelUnsupported(
            f"{name} describes an encoder-decoder; outpace runs decoders (causal language models)"
        )
    kinds = layer_kinds(text)
    for index, kind in enumerate(kinds):
        if kind not in _FORGETS:
            why = _WHY.get(kind, "keeps its past in a form outpace has not been shown to roll back")
            raise ModelUnsupported(
                f"{name}: layer {index} is of kind {kind!r}, which {why}, so a rejected guess "
                f"could not be forgotten exactly; models whose layers are all "
                f"{' or '.join(_FORGETS)} are run"
            )
    if getattr(text, "use_bidirectional_attention", False):
        raise ModelUnsupported(f"{name} looks ahead (bidirectional attention); no causal model")
    window = getattr(text, "sliding_window", None)
    return Layout(kinds=frozenset(kinds), window=window if isinstance(window, int) else None)


def layer_kinds(text: Any) -> list[str]:
    """One kind per layer, in transformers' words; "reuse" for a layer that shares another's."""
    count = int(getattr(text, "num_hidden_layers", 1))
    kinds = getattr(text, "layer_types", None)
    if kinds is None:
        try:
            from transformers.cache_utils import get_layer_types_and_kwargs

            kinds = get_layer_types_and_kwargs(text)[0]
        except (ImportError, AttributeError):  # before 5.24: no such function or attribute
            sliding = getattr(text, "sliding_window", None) is not None
            kinds = ["sliding_attention" if sliding else "full_attention"] * count
    shared = getattr(text, "kv_sharing_modes", None)
    if shared is not None:
        kinds = ["reuse" if m == "reuse" else k for k, m in zip(kinds, shared, strict=True)]
    return [str(kind) for kind in kinds]


def context_tokens(text: Any) -> int:
    """The longest text a model reads.

    Scalings that change the frequencies of *all* positions once a text grows past a length make
    earlier rows depend on later ones; such a model is run up to that length only.
    """
    stated = next((getattr(text, n) for n in _LENGTHS if getattr(text, n, None)), None)
    longest = int(stated) if stated is not None else _NO_LIMIT_TOKENS
    scaling = getattr(text, "rope_parameters", None) or getattr(text, "rope_scaling", None) or {}
    sections = [scaling, *(v for v in scaling.values() if isinstance(v, dict))]
    for section in sections:
        kind = section.get("rope_type", section.get("type"))
        if kind in ("dynamic", "longrope"):
            first = section.get("original_max_position_embeddings") or getattr(
                text, "original_max_position_embeddings", None
            )
            longest = min(longest, int(first or longest))
    return longest


def end_ids(model: Any) -> frozenset[int]:
    """Ids that end a text, of the generation configuration and of the configuration."""
    text = model.config.get_text_config(decoder=True)
    found: set[int] = set()
    for source in (getattr(model, "generation_config", None), model.config, text):
        ids = getattr(source, "eos_token_id", None)
        found.update(ids if isinstance(ids, (list, tuple)) else [ids] if ids is not None else [])
    return frozenset(int(index) for index in found)
