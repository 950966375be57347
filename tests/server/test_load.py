"""The load in small: 64 clients of every kind for 20 seconds, and nothing is left of them."""

import importlib.util
import os
import sys
import threading
from itertools import count
from pathlib import Path
from typing import Any

from contract.liars import saying
from outpace.server.settings import Bounds, Settings
from server.live import running, until
from server.shaped import shaped_model

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "load.py"
SECONDS = 20.0


def script() -> Any:
    spec = importlib.util.spec_from_file_location("load", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["load"] = module
    spec.loader.exec_module(module)
    return module


def test_twenty_seconds_of_everything_at_once() -> None:
    load = script()
    bounds = Bounds(body_bytes=load.BODY_BYTES, in_flight=1000)
    settings = Settings(port=0, api_keys=(load.KEY,), bounds=bounds)
    n_threads = threading.active_count()
    with running(shaped_model(), settings) as live:
        found = load.load(live.url, os.getpid(), SECONDS)
        live.idle()
    assert found["problems"] == {}
    assert found["compared"] > 100
    assert len(found["kinds"]) == 10
    assert {"200", "400", "401", "404", "405", "413"} <= set(found["statuses"])
    assert not [status for status in found["statuses"] if int(status) >= 500]
    until(lambda: threading.active_count() <= n_threads)  # those of pools end in their own time


def test_one_wrong_answer_among_fifty_is_noticed() -> None:
    load = script()
    seen = count()

    def lie(choice: dict[str, Any]) -> None:
        if next(seen) % 50 == 49 and "text" in choice:
            choice["text"] += "!"

    bounds = Bounds(body_bytes=load.BODY_BYTES, in_flight=1000)
    settings = Settings(port=0, api_keys=(load.KEY,), bounds=bounds)
    with running(shaped_model(), settings, behind=saying(lie)) as live:
        found = load.load(live.url, os.getpid(), 3.0)
    assert any("in place of" in problem for problem in found["problems"])
