"""Lines are whole or absent, whatever kills the process that writes them."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outpace.errors import CapacityError, ConfigError
from outpace.journal import Journal, read_lines

# A process of its own, so that it can be killed at any moment.
WRITE_FOR_EVER = """
import sys
from outpace.journal import Journal
with Journal(sys.argv[1]) as journal:
    n = 0
    while True:
        journal.append({"n": n, "text": "ü" * (n % 3000)})
        n += 1
"""


def test_a_killed_writer_leaves_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    for _ in range(3):
        before = path.stat().st_size if path.exists() else 0
        process = subprocess.Popen([sys.executable, "-c", WRITE_FOR_EVER, str(path)])
        while not path.exists() or path.stat().st_size == before:
            assert process.poll() is None, "the writer ended by itself"
            time.sleep(0.001)
        time.sleep(random.uniform(0, 0.05))
        process.kill()
        process.wait()
        with Journal(path):
            pass
        assert path.read_bytes().endswith(b"\n")
        texts = [(line["n"], len(line["text"])) for _, line in read_lines(path)]
        assert all(n % 3000 == length for n, length in texts)


@pytest.mark.parametrize("cut", [1, 5, 100_000])
def test_a_half_line_is_removed_and_counted(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b'{"a":1}\n' + b"x" * cut)
    assert [line for _, line in read_lines(path)] == [{"a": 1}], "reading alone ignores it"
    with Journal(path) as journal:
        assert journal.n_cut_bytes == cut
        journal.append({"b": 2})
    assert [line for _, line in read_lines(path)] == [{"a": 1}, {"b": 2}]


def test_two_processes_do_not_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    with Journal(path), pytest.raises(CapacityError, match="another process"):
        Journal(path)
    Journal(path).close()


def test_what_is_no_journal_is_named(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text('{"a":1}\nnot json\n')
    with pytest.raises(ConfigError, match=r"lines\.jsonl:2 is no JSON"):
        list(read_lines(path))
    with pytest.raises(ConfigError, match="cannot be written"):
        Journal(tmp_path / "no" / "folder")
    with pytest.raises(ConfigError, match="cannot read"):
        list(read_lines(tmp_path / "none"))
