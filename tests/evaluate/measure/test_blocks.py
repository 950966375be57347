"""Arms answer next to each other, every answer is written once, and a cut run goes on in pairs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evaluate.questions import plain
from outpace.evaluate.arms.arm import OpenArm
from outpace.evaluate.arms.local import LocalArm
from outpace.evaluate.measure.blocks import Files, Work, run
from outpace.evaluate.measure.shares import SHARES, read_shares
from outpace.evaluate.measurement import RECORDS, Measurements, read_measurements
from outpace.evaluate.plan.arms import InProcessArm
from outpace.evaluate.plan.data import Design, Sampling
from outpace.journal import Journal
from small import small_model

ARMS = {"baseline": InProcessArm(drafter="none"), "candidate": InProcessArm(drafter="lookup")}


def work(n: int = 4, **design: object) -> Work:
    return Work(
        plan="p", phase="test", design=Design(**{"warmup": 0, **design}),  # type: ignore[arg-type]
        sampling=Sampling(max_tokens=12, ignore_eos=True), questions=plain(n), arms=tuple(ARMS),
    )  # fmt: skip


@contextmanager
def arms() -> Iterator[dict[str, OpenArm]]:
    model = small_model()
    made = {name: LocalArm(name, arm, model) for name, arm in ARMS.items()}
    try:
        yield dict(made)
    finally:
        for arm in made.values():
            arm.close()


def measure(folder: Path, work: Work, stop_after: int | None = None) -> Measurements:
    told = 0

    def tell(n: int, label: str) -> None:
        nonlocal told
        told += n
        if stop_after is not None and told >= stop_after:
            raise KeyboardInterrupt

    path = folder / RECORDS
    with (
        arms() as opened,
        Journal(path) as records,
        Journal(folder / SHARES) as shares,
    ):
        files = Files(
            records=records, shares=shares, before=read_measurements(path),
            shares_before=read_shares(folder / SHARES),
        )  # fmt: skip
        if stop_after is None:
            run(work, opened, files, tell)
            assert told == work.n_requests
        else:
            with pytest.raises(KeyboardInterrupt):
                run(work, opened, files, tell)
    return read_measurements(path)


def test_arms_take_turns_within_a_block(tmp_path: Path) -> None:
    found = measure(tmp_path, work())
    first = [m.arm for m in found.requests if m.request.block.repeat == 0]
    second = [m.arm for m in found.requests if m.request.block.repeat == 1]
    assert first == ["baseline", "candidate", "candidate", "baseline"] * 2
    assert second == ["candidate", "baseline", "baseline", "candidate"] * 2
    assert [m.order for m in found.requests] == [*range(8)] * 2
    assert len(found.done) == 16
    for window in found.windows:
        assert window.valid
        assert window.own_tokens == 4 * 12 == window.counters["generation_tokens"]
        assert window.foreign_tokens == 0
        assert window.cpu_s is not None
        assert window.block.requests == 4
    kept = {w.block.block.arm: w.counters["draft_tokens"] for w in found.windows}
    assert kept["baseline"] == 0 < kept["candidate"]


def test_pairs_have_the_same_text(tmp_path: Path) -> None:
    found = measure(tmp_path, work(streams=2))
    texts = {(m.arm, m.request.item): m.tokens for m in found.requests}
    assert all(texts["baseline", f"q{i}"] == texts["candidate", f"q{i}"] for i in range(4))


@pytest.mark.parametrize("at", range(1, 16))
def test_cut_off_anywhere_it_goes_on_and_pairs_are_whole(tmp_path: Path, at: int) -> None:
    measure(tmp_path, work(), stop_after=at)
    before = len(read_measurements(tmp_path / RECORDS).requests)
    assert before == at
    found = measure(tmp_path, work())
    assert len(found.done) == 16
    # At most the group that was cut is asked again.
    assert len(found.requests) - 16 in (0, 1)
    assert len(found.windows) == 4
    assert all(w.block.requests == 4 and w.own_tokens == 48 for w in found.windows)
    pairs: dict[tuple[int, str, int], set[str]] = {}
    for m in found.requests:
        key = (m.request.block.repeat, m.request.item, m.request.attempt)
        pairs.setdefault(key, set()).add(m.arm)
    whole = {key[:2] for key, both in pairs.items() if len(both) == 2}
    assert len(whole) == 8
    again = measure(tmp_path, work())
    assert len(again.requests) == len(found.requests), "nothing is measured twice"
