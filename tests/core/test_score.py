"""Reports of log-probabilities: what one row says of its token."""

import math

import pytest
import torch

from outpace.core.sampling import Sampling
from outpace.core.score import token_logprobs
from outpace.errors import RequestError


def test_a_report_is_the_log_softmax_with_the_likeliest_first() -> None:
    logits_V = torch.tensor([0.0, 2.0, 1.0, -3.0], dtype=torch.float64)
    total = sum(math.exp(x) for x in (0.0, 2.0, 1.0, -3.0))
    report = token_logprobs(logits_V, 0, 2)
    assert report.token == 0
    assert report.logprob == pytest.approx(-math.log(total), abs=1e-12)
    assert report.rank == 3
    assert [token for token, _ in report.top] == [1, 2]
    assert report.top[0][1] == pytest.approx(2 - math.log(total), abs=1e-12)


def test_among_equals_the_lowest_ids_are_reported() -> None:
    logits_V = torch.tensor([1.0, 5.0, 1.0, 1.0, 1.0])
    assert [token for token, _ in token_logprobs(logits_V, 4, 3).top] == [1, 0, 2]
    assert token_logprobs(logits_V, 4, 3).rank == 2


def test_more_alternatives_than_tokens_are_all_of_them() -> None:
    report = token_logprobs(torch.zeros(3), 1, 20)
    assert [token for token, _ in report.top] == [0, 1, 2]
    assert token_logprobs(torch.zeros(3), 1, 0).top == ()


@pytest.mark.parametrize("name", ["logprobs", "prompt_logprobs"])
def test_a_number_of_alternatives_is_not_negative(name: str) -> None:
    with pytest.raises(RequestError, match=name):
        Sampling(**{name: -1})  # type: ignore[arg-type]
