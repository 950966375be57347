"""What a request may ask of speculation, and what a control may know."""

from dataclasses import fields

import pytest

from outpace.control.limits import OFF, AutoConfig, Limits, View, parse_speculation
from outpace.errors import ConfigError, RequestError


def test_a_request_turns_speculation_off_leaves_it_to_the_control_or_fixes_it() -> None:
    assert parse_speculation("off") == OFF
    assert parse_speculation("auto") is None
    five = parse_speculation("fixed:5")
    assert five is not None
    assert (five.max_nodes, five.max_depth, five.worth) == (5, 5, 0.0)


@pytest.mark.parametrize(
    "text", ["", "on", "fixed", "fixed:", "fixed:0", "fixed:-1", "fixed:1e2", "fixed:²", "fixed:2 ",
             "fixed:99999", "fixed:" + "9" * 5000, "OFF", "auto:3"],
)  # fmt: skip
def test_anything_else_is_the_callers_error_and_names_what_is_allowed(text: str) -> None:
    with pytest.raises(RequestError, match="allowed: off, auto, or fixed:N"):
        parse_speculation(text)


def test_a_view_holds_nothing_of_the_guesses_to_come() -> None:
    assert [f.name for f in fields(View)] == ["key", "style", "catch_up", "context_tokens"]


@pytest.mark.parametrize(
    "wrong", [{"max_nodes": 0}, {"max_depth": 2000}, {"draft_share": 0.0}, {"draft_share": 1.5}]
)
def test_caps_are_checked_at_birth(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="allowed"):
        AutoConfig(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        Limits(max_nodes=-1, max_depth=0)
