"""Files that are not whole traces: a named error says what was found and what to do."""

import json
from pathlib import Path

import pytest

from engine.trace_world import SCENES, parsed, put, record, sealed
from outpace.core.sampling import Sampling
from outpace.engine.explain import explain
from outpace.engine.replay import replay
from outpace.engine.tracing import reading
from outpace.errors import TraceError


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    record(tmp_path / "t.jsonl", SCENES[6])
    return tmp_path / "t.jsonl"


def _fails(path: Path, *words: str) -> None:
    for read in (replay, explain):
        with pytest.raises(TraceError) as caught:
            read(path)
        for word in (str(path), *words):
            assert word in str(caught.value)


def test_a_line_cut_anywhere_says_the_process_was_killed(trace: Path) -> None:
    whole = trace.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for cut in range(last + 1, len(whole) - 1, 61):
        trace.write_bytes(whole[:cut])
        _fails(trace, "stops in the middle", "delete the last line")


def test_only_the_newline_missing_is_no_damage(trace: Path) -> None:
    trace.write_bytes(trace.read_bytes().rstrip(b"\n"))
    assert replay(trace).holds


def test_another_version_names_both(trace: Path) -> None:
    lines = parsed(trace)
    lines[0]["version"] = 7
    trace.write_text(sealed(lines), encoding="ascii")
    _fails(trace, "version 7", "version 1", "the outpace that wrote it")


@pytest.mark.parametrize(
    "content",
    [
        b"hello\n",
        b"{}\n",
        b"[1, 2]\n",
        b'{"prompt": "a"}\n{"prompt": "b"}\n',
        b"\x1f\x8b\x08\x00 zipped",
        b"GGUF\x03\x00\x00\x00",
        "{'é'}".encode(),
        b"[" * 100_000,
        b"1" * 10_000,
    ],
    ids=["text", "object", "list", "prompts", "gzip", "gguf", "utf-8", "deep", "number"],
)
def test_a_file_of_another_kind_is_not_a_trace(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    _fails(path, "is not a trace", "--trace")


def test_an_empty_file_an_absent_one_and_a_folder(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    _fails(tmp_path / "empty", "is empty")
    _fails(tmp_path / "absent", "No such file")
    _fails(tmp_path, "directory")


def test_a_line_without_end_is_refused_before_it_fills_memory(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_LINE_BYTES", 10_000)
    with trace.open("ab") as file:
        file.write(b"x" * 20_000)
    _fails(trace, "more than 10000 bytes")


def test_a_line_of_another_program_is_named(trace: Path) -> None:
    text = trace.read_text(encoding="ascii")
    trace.write_text(f"{text}not json\n{text}", encoding="ascii")
    n = len(text.splitlines())
    _fails(trace, f"line {n + 1}", "not JSON")


def test_two_traces_in_one_file_are_refused(trace: Path) -> None:
    text = trace.read_text(encoding="ascii")
    trace.write_text(text + text, encoding="ascii")
    _fails(trace, "one header")


def test_reformatted_json_is_refused(trace: Path) -> None:
    pretty = "".join(json.dumps(line) + "\n" for line in parsed(trace))
    trace.write_text(pretty, encoding="ascii")
    _fails(trace, "sha256")


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("start",), "3", ".start: found '3'; allowed: int"),
        (("start",), 3.5, ".start: found 3.5; allowed: int"),
        (("start",), True, ".start: found True"),
        (("draft", "seconds"), "fast", ".draft.seconds"),
        (("draft", "output", "tokens"), 5, "allowed: a list"),
        (("draft", "output", "tokens"), [1, None], ".draft.output.tokens[1]"),
        (("accept", "input", "rule"), "magic", "allowed: one of"),
        (("extra",), 1, "unknown keys ['extra']"),
        (("control",), {"reason": "x"}, "missing keys ['max_depth', 'max_nodes', 'worth']"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named_by_its_place(
    place: tuple[str, ...], value: object, words: str, trace: Path
) -> None:
    lines = parsed(trace)
    put(lines[2], place, value)
    trace.write_text(sealed(lines), encoding="ascii")
    _fails(trace, "line 3", words)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_is_none_is_refused(number: str, trace: Path) -> None:
    lines = parsed(trace)
    seconds = json.dumps(lines[2]["draft"]["seconds"])
    text = trace.read_text(encoding="ascii").replace(f'"seconds":{seconds}', f'"seconds":{number}')
    trace.write_text(text, encoding="ascii")
    _fails(trace, "line 3")


def test_a_line_that_is_gone_breaks_the_chain_at_its_place(trace: Path) -> None:
    lines = trace.read_text(encoding="ascii").splitlines(keepends=True)
    trace.write_text("".join([*lines[:2], *lines[3:]]), encoding="ascii")
    report = replay(trace)
    assert not report.holds
    assert any(f.line == 3 and f.finding.stage == "chain" for f in report.failures)
    assert "were changed" in explain(trace).notes[0]


@pytest.mark.parametrize("key", ["parents", "path", "tokens", "judged", "rows", "steps", "node"])
@pytest.mark.parametrize("value", [-5, 10**6, 10**30])
def test_ids_out_of_range_are_findings_and_no_crash(key: str, value: int, trace: Path) -> None:
    """A forged trace with the right shape can say anything; replay only says it does not hold."""
    for i in range(2, len(parsed(trace))):
        lines = parsed(trace)
        for place in _places(lines[i], key):
            forged = parsed(trace)
            put(forged[i], place, value)
            trace_text = sealed(forged)
            (trace.parent / "forged.jsonl").write_text(trace_text, encoding="ascii")
            assert not replay(trace.parent / "forged.jsonl").holds


def _places(
    value: object, key: str, place: tuple[str | int, ...] = ()
) -> list[tuple[str | int, ...]]:
    """Every whole number under `key`, in lists too."""
    found: list[tuple[str | int, ...]] = []
    items = value.items() if isinstance(value, dict) else ()
    rows = enumerate(value) if isinstance(value, list) else ()
    for name, item in (*items, *rows):
        here = (*place, name)
        if type(item) is int and key in here[-2:]:
            found.append(here)
        found += _places(item, key, here)
    return found


def test_a_sampling_that_does_not_fit_its_seed_is_found(trace: Path) -> None:
    lines = parsed(trace)
    lines[1]["sampling"]["seed"] = 1
    trace.write_text(sealed(lines), encoding="ascii")
    assert Sampling(seed=1).seed == 1
    assert not replay(trace).holds
