"""Any Python thread may call, a fork may go on, and the host's float mode changes nothing."""

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing.connection import Connection

import numpy as np
import pytest
import torch

from outpace.errors import CapabilityError
from outpace.runtimes.native.kernels import Format, KernelDecoder, default_threads, why_missing
from runtimes.native.kernels.tiny import LLAMA, build, chain

pytestmark = pytest.mark.skipif(why_missing() is not None, reason=str(why_missing()))

TEXT = np.arange(40) % LLAMA.vocab


def answer(decoder: KernelDecoder) -> bytes:
    """The bits of a pass."""
    logits = decoder.forward(chain(TEXT)).logits_AV
    assert logits is not None
    return logits.numpy().tobytes()


def decoder_of(n_threads: int) -> KernelDecoder:
    """A small q8 model."""
    spec = build(replace(LLAMA, target=Format.Q8))
    return KernelDecoder(spec, n_pages=3, page_size=16, n_threads=n_threads)


def test_calls_from_many_threads_queue_up() -> None:
    decoder = decoder_of(2)
    want = answer(decoder)
    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(lambda _: answer(decoder), range(40))) == {want}
    decoder.close()


def test_threads_that_come_late_change_nothing() -> None:
    """Far more threads than cores: most find their work done, some come in the middle of it."""
    alone, crowd = decoder_of(1), decoder_of(24)
    rows = replace(chain(TEXT), logits=False)
    want = answer(alone), tuple(alone.forward(rows).best_A or ())
    for _ in range(60):
        assert (answer(crowd), tuple(crowd.forward(rows).best_A or ())) == want
    alone.close()
    crowd.close()


def _child(decoder: KernelDecoder, out: Connection) -> None:
    out.send_bytes(answer(decoder))
    decoder.close()


def test_a_forked_child_goes_on() -> None:
    decoder = decoder_of(3)
    want = answer(decoder)
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()
    child = fork.Process(target=_child, args=(decoder, theirs))
    child.start()
    assert ours.poll(120)
    assert ours.recv_bytes() == want
    child.join(120)
    assert child.exitcode == 0
    assert answer(decoder) == want
    decoder.close()


def test_the_hosts_float_mode_is_not_ours() -> None:
    decoder = decoder_of(1)
    want = answer(decoder)
    torch.set_flush_denormal(True)
    try:
        assert answer(decoder) == want
    finally:
        torch.set_flush_denormal(False)
    decoder.close()


def test_thread_counts_are_checked_and_found() -> None:
    assert default_threads() >= 1
    decoder = decoder_of(1)
    with pytest.raises(CapabilityError, match="0 threads"):
        decoder.set_threads(0)
    decoder.close()
    decoder.close()
