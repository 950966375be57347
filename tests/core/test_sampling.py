"""A `Sampling` refuses what makes no sense, naming it, and takes all that does."""

import math
from typing import Any

import pytest

from outpace.core.sampling import RULES, Sampling
from outpace.errors import RequestError

WRONG: list[tuple[str, dict[str, Any]]] = [
    ("temperature", {"temperature": -0.1}),
    ("temperature", {"temperature": math.nan}),
    ("temperature", {"temperature": math.inf}),
    ("top_k", {"top_k": -1}),
    ("top_k", {"top_k": 1.5}),
    ("top_k", {"top_k": True}),
    ("top_p", {"top_p": 0.0}),
    ("top_p", {"top_p": 1.1}),
    ("top_p", {"top_p": math.nan}),
    ("min_p", {"min_p": -0.1}),
    ("min_p", {"min_p": 1.1}),
    ("repetition_penalty", {"repetition_penalty": 0.0}),
    ("repetition_penalty", {"repetition_penalty": math.inf}),
    ("presence_penalty", {"presence_penalty": math.nan}),
    ("frequency_penalty", {"frequency_penalty": math.inf}),
    ("logit_bias key", {"logit_bias": {-1: 1.0}}),
    ("logit_bias", {"logit_bias": {1: math.nan}}),
    ("logit_bias", {"logit_bias": {1: math.inf}}),
    ("banned", {"banned": ((),)}),
    ("banned", {"banned": ((1, -2),)}),
    ("forced", {"forced": (1.0,)}),
    ("min_tokens", {"min_tokens": -1}),
    ("min_tokens", {"min_tokens": 3, "max_tokens": 2}),
    ("max_tokens", {"max_tokens": 0}),
    ("stop", {"stop": "END"}),
    ("stop", {"stop": ("",)}),
    ("stop", {"stop": tuple("x" * i for i in range(1, 66))}),
    ("stop_token_ids", {"stop_token_ids": frozenset({-1})}),
    ("seed", {"seed": -1}),
    ("seed", {"seed": 2**64}),
    ("seed", {"seed": 1.0}),
    ("rule", {"rule": "best"}),
]


@pytest.mark.parametrize(("name", "fields"), WRONG, ids=[repr(f) for _, f in WRONG])
def test_what_makes_no_sense_is_refused_by_name(name: str, fields: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match=f"{name}.*allowed: "):
        Sampling(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": 0}, {"temperature": 1e-300}, {"temperature": 100.0}, {"top_k": 10**9},
        {"top_p": 1}, {"top_p": 1e-12}, {"min_p": 1}, {"repetition_penalty": 0.1},
        {"presence_penalty": -2.0}, {"logit_bias": {3: -math.inf}}, {"max_tokens": 1},
        {"min_tokens": 2, "max_tokens": 2}, {"seed": 0}, {"seed": 2**64 - 1}, {"stop": ("a",)},
        *({"rule": rule} for rule in RULES),
    ],
    ids=repr,
)  # fmt: skip
def test_the_edges_of_what_is_allowed_are_allowed(fields: dict[str, Any]) -> None:
    Sampling(**fields)


@pytest.mark.parametrize(
    ("fields", "same"),
    [
        ({}, True), ({"rule": "match"}, True), ({"rule": "token"}, False),
        ({"temperature": 1.0}, False), ({"temperature": 1.0, "seed": 1}, True),
        ({"temperature": 1.0, "seed": 1, "rule": "block"}, False),
        ({"temperature": 1.0, "rule": "match"}, False),
    ],
    ids=repr,
)  # fmt: skip
def test_the_same_text_is_promised_for_cold_and_seeded_requests(
    fields: dict[str, Any], same: bool
) -> None:
    assert Sampling(**fields).same_text is same


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": 0.5}, {"repetition_penalty": 1.1}, {"presence_penalty": 0.1},
        {"frequency_penalty": 0.1}, {"logit_bias": {1: 0.5}}, {"banned": ((1,),)},
        {"forced": (1,)}, {"min_tokens": 1}, {"rule": "token"},
    ],
    ids=repr,
)  # fmt: skip
def test_the_argmax_is_not_enough_where_a_processor_or_a_rule_needs_more(
    fields: dict[str, Any],
) -> None:
    assert Sampling().plain_argmax
    assert not Sampling(**fields).plain_argmax


@pytest.mark.parametrize(
    "fields",
    [
        {"logit_bias": {8: 1.0}}, {"stop_token_ids": frozenset({8})}, {"forced": (8,)},
        {"banned": ((1, 8),)},
    ],
    ids=repr,
)  # fmt: skip
def test_ids_the_model_does_not_have_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match=r"\[8\].*0 to 7"):
        Sampling(**fields).check_vocabulary(8)
    Sampling(**fields).check_vocabulary(9)
