"""Stage 4: the residual is a law, and the target's own where nothing was guessed."""

import pytest
import torch

from outpace.core.accept import Verdict
from outpace.core.coins import SeededCoins
from outpace.core.law import History, Laws
from outpace.core.resample import resample, residual
from outpace.core.sampling import Sampling
from outpace.errors import RequestError

P_V = torch.tensor([0.5, 0.3, 0.2])


def test_the_residual_is_what_the_guess_left_rescaled() -> None:
    q_V = torch.tensor([0.2, 0.7, 0.1])
    assert residual(P_V, q_V).tolist() == pytest.approx([0.75, 0, 0.25])


def test_with_no_guess_the_residual_is_the_targets_law() -> None:
    assert residual(P_V, torch.zeros(3)).tolist() == pytest.approx(P_V.tolist())


def test_where_nothing_is_left_the_residual_is_still_a_law() -> None:
    assert residual(P_V, P_V).equal(P_V)
    other_V = torch.tensor([0.0, 1.0, 0.0])
    assert residual(0.5 * P_V, P_V, or_V=other_V).equal(other_V)


def test_nothing_is_drawn_where_nothing_may_follow() -> None:
    sampling = Sampling(temperature=1, banned=((0,), (1,)))
    laws = Laws(sampling=sampling, history=History((0,)), paths=[()], logits_AV=torch.zeros(1, 2))
    verdict = Verdict(rule="token", path=(), row=0, weights_V=laws.law(0))
    with pytest.raises(RequestError, match="loosen one of them"):
        resample(verdict, laws, SeededCoins(0, 1), 1)
