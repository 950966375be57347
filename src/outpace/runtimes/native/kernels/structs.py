"""The C structs of `cpp/abi.h`, field by field."""

import ctypes
from ctypes import POINTER, c_float, c_int32, c_int64, c_void_p

ABI_VERSION = 3
PHASES = (
    *("embed", "norm", "qkv", "place", "attend", "round", "o", "norm_ffn", "gate", "down", "head"),
)

_FLOATS = c_void_p  # addresses of arrays the caller keeps alive


class LayerStruct(ctypes.Structure):
    """OutpaceLayer."""

    _fields_ = (
        *[(name, c_void_p) for name in ("q", "k", "v", "o", "gate", "up", "down")],
        ("norm_attention", _FLOATS),
        ("norm_ffn", _FLOATS),
        ("norm_after_attention", _FLOATS),
        ("norm_after_ffn", _FLOATS),
        ("norm_q", _FLOATS),
        ("norm_k", _FLOATS),
        ("bias_q", _FLOATS),
        ("bias_k", _FLOATS),
        ("bias_v", _FLOATS),
        ("bias_o", _FLOATS),
        ("window", c_int32),
        ("rope", c_int32),
    )


class ModelStruct(ctypes.Structure):
    """OutpaceModel."""

    _fields_ = (
        *[
            (name, c_int32)
            for name in (
                *("hidden", "n_layers", "n_heads", "n_kv_heads", "head_dim", "ffn", "vocab"),
                *("activation", "rope_dim", "rope_interleaved", "n_ropes", "max_positions"),
                *("page_size", "kv_type", "fine_rows"),
            )
        ],
        *[
            (name, c_float)
            for name in (
                *("eps", "embedding_scale", "attention_scale", "logit_scale", "logit_softcap"),
            )
        ],
        ("embedding", c_void_p),
        ("head", c_void_p),
        ("norm_final", _FLOATS),
        ("rope_cos", POINTER(c_void_p)),
        ("rope_sin", POINTER(c_void_p)),
        ("layers", POINTER(LayerStruct)),
    )


class PassStruct(ctypes.Structure):
    """OutpacePass."""

    _fields_ = (
        *[
            (name, c_int32)
            for name in ("n_rows", "n_sequences", "max_pages", "n_asked", "n_taps", "top_k")
        ],
        *[
            (name, c_void_p)
            for name in (
                *("tokens", "positions", "parents", "starts", "n_cached", "page_tables"),
                *("k_pool", "v_pool"),
            )
        ],
        ("n_pages", c_int64),
        *[
            (name, c_void_p)
            for name in (
                *("asked", "logits", "best_ids", "best_logits", "top_ids", "top_logits"),
                *("taps", "hidden", "profile"),
            )
        ],
    )


class HeadStruct(ctypes.Structure):
    """OutpaceHead."""

    _fields_ = (
        *[
            (name, c_int32)
            for name in ("hidden", "n_taps", "embed_width", "inner", "root_inner", "draft")
        ],
        ("eps", c_float),
        *[
            (name, c_void_p)
            for name in (
                *("embed", "root", "root_gate", "root_up", "root_down"),
                *("step", "gate", "up", "down", "out"),
            )
        ],
    )


class GrowthStruct(ctypes.Structure):
    """OutpaceGrowth."""

    _fields_ = (
        *[(name, c_int32) for name in ("n_trees", "n_children", "stride")],
        *[
            (name, c_void_p)
            for name in (
                *("hidden", "tokens", "max_nodes", "max_depths", "widths", "worths"),
                *("sharpness", "ids", "n_found", "guesses", "parents", "chances"),
            )
        ],
    )
