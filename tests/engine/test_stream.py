"""Waiting for a whole answer: one waking, whatever came on the way."""

import asyncio

import pytest

from outpace.core.sampling import Sampling
from outpace.engine.service import Service
from small import small_model

N = 60


def test_ended_returns_once_the_answer_is_complete_and_leaves_it_to_be_read() -> None:
    with Service(small_model().engine) as service:

        async def read() -> list[int]:
            stream = service.submit([1, 2, 3], Sampling(max_tokens=N, ignore_eos=True))
            await stream.ended()
            assert stream.finish == "length"
            await stream.ended()  # at once
            return [token for chunk in [c async for c in stream] for token in chunk.tokens]

        assert len(asyncio.run(read())) == N


def test_waiting_for_the_end_does_not_wake_before_it() -> None:
    with Service(small_model().engine) as service:
        stream = service.submit([1, 2, 3], Sampling(max_tokens=N, ignore_eos=True))
        rung: list[object] = []
        if stream._box.call_on_news(lambda: rung.append(stream.finish), None):
            stream.wait(60)
            service.shutdown()
            assert rung == ["length"]


def test_a_wait_that_is_given_up_leaves_the_request_alone() -> None:
    with Service(small_model(context_tokens=100_000).engine) as service:

        async def give_up() -> None:
            stream = service.submit([1], Sampling(max_tokens=90_000, ignore_eos=True))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(stream.ended(), 0.05)
            assert stream.finish is None
            stream.close()
            await stream.ended()
            assert stream.finish == "abort"

        asyncio.run(give_up())
