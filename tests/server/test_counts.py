"""When a reader wakes, its request is counted; and clocks are compared while nothing interrupts."""

import threading

from outpace.core.sampling import Sampling
from outpace.engine.service import Service
from outpace.server.app import create_app
from outpace.server.metrics.epoch import epoch_s
from outpace.server.settings import Settings
from small import small_model


def test_whoever_has_an_answer_finds_it_counted() -> None:
    model, go_on = small_model(), threading.Event()
    seen: list[dict[str, int]] = []
    with Service(model.engine) as service:
        meters = create_app(model, service, Settings(port=0)).state.served.meters
        sampling = Sampling(max_tokens=3, ignore_eos=True)
        stream = service.submit([1, 2], sampling, sink=lambda _: (go_on.wait(60), None)[1])
        # As the engine's thread wakes the reader.
        assert stream._box.call_on_news(lambda: seen.append(meters.counted().finished), None)
        go_on.set()
    assert seen == [{"length": 1}]


def test_clocks_are_compared_again_after_an_interruption() -> None:
    now_s, stalls_s = [100.0], iter([0.5, 0.0, 0.002, 0.0, 0.0, 0.0])

    def clock() -> float:
        now_s[0] += 1e-6 + next(stalls_s, 0.0)
        return now_s[0]

    def wall() -> float:
        now_s[0] += next(stalls_s, 0.0)
        return now_s[0] + 1e9

    assert abs(epoch_s(clock, wall) - 1e9) < 1e-4


def test_clocks_that_never_come_close_are_compared_at_their_closest() -> None:
    now_s, gaps_s = [0.0], iter([0.9, 0.3, 0.01, 0.7, 0.8, 0.9, 0.9, 0.9])

    def wall() -> float:
        at = now_s[0] + 1e9
        now_s[0] += next(gaps_s)
        return at

    assert abs(epoch_s(lambda: now_s[0], wall) - 1e9) <= 0.005 + 1e-6
