"""`outpace generate` as a person meets it: text on stdout, talk on stderr, clear errors."""

import json
from pathlib import Path

import jsonschema
import pytest

from cli.conftest import Run

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "src/outpace/cli/generate.schema.json").read_text()
)


def test_the_text_is_stdout_and_the_account_is_stderr(run: Run) -> None:
    done = run("generate", "hello", "-n", "20")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("\n")
    assert "tokens/s" in done.stderr
    assert "tokens per pass" in done.stderr
    assert "tokens/s" not in done.stdout


def test_json_is_one_document_that_keeps_its_schema(run: Run) -> None:
    done = run("generate", "hello", "-n", "40", "--json", "--seed", "3", "-t", "0.8")
    document = json.loads(done.stdout)
    jsonschema.validate(document, SCHEMA)
    assert document["completion_tokens"] == len(document["token_ids"])
    assert document["seed"] == 3
    assert document["promise"] == "same text"


def test_compare_shows_the_same_text_and_the_ratio(run: Run) -> None:
    done = run("generate", "hello", "-n", "60", "--ignore-eos", "--json", "--compare")
    document = json.loads(done.stdout)
    jsonschema.validate(document, SCHEMA)
    assert document["same_text"] is True
    assert document["plain"]["drafted"] == 0
    assert document["drafted"] > 0
    assert document["speedup"] > 0


@pytest.mark.parametrize("drafter", ["none", "lookup", "suffix", "auto", "mix:lookup+suffix"])
def test_every_drafter_gives_the_same_text(run: Run, drafter: str) -> None:
    texts = {
        run("generate", "hello", "-n", "40", "--ignore-eos", "--drafter", d).stdout
        for d in ("none", drafter)
    }
    assert len(texts) == 1


def test_a_model_drafts_for_another(run: Run, folder: Path) -> None:
    done = run("generate", "hello", "-n", "30", "--json", "--drafter", f"model:{folder}")
    document = json.loads(done.stdout)
    assert document["kept"] > 0.8 * document["drafted"] > 0, "it is the same model"


def test_the_prompt_may_come_from_stdin(run: Run) -> None:
    piped = run("generate", "-", "-n", "10", stdin="grüße\n".encode())
    given = run("generate", "grüße\n", "-n", "10")
    assert piped.stdout == given.stdout


def test_a_trace_is_replayed_and_explained(run: Run, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    assert run("generate", "hello", "-n", "30", "--trace", str(trace)).returncode == 0
    holds = run("replay", str(trace), "--json", model=False)
    assert holds.returncode == 0
    assert json.loads(holds.stdout)["holds"] is True
    told = run("explain", str(trace), "--slowest", "1", model=False)
    assert told.returncode == 0
    assert "Round" in told.stdout
    lines = trace.read_text().splitlines()
    lines[2] = lines[2].replace('"kept":', '"kept_":', 1)
    trace.write_text("\n".join(lines) + "\n")
    assert run("replay", str(trace), model=False).returncode != 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["hello", "--temperature", "nan"], ["temperature is nan", "0 or more"]),
        (["hello", "--temperature", "-1"], ["temperature is -1.0", "0 or more"]),
        (["hello", "--top-p", "0"], ["top_p is 0.0", "more than 0"]),
        (["hello", "--stop", ""], ["stop is", "at least one character"]),
        (["hello", "--rule", "best"], ["rule is 'best'", "match, token, block, traversal"]),
        (["hello", "--drafter", "lokup"], ["no drafter 'lokup'", "lookup"]),
        (["hello", "--drafter", "synthetic:right"], ["synthetic"]),
        (["hello", "--logit-bias", "x=1"], ["TOKEN_ID=NUMBER"]),
        (["hello", "--logit-bias", "9999=1"], ["9999", "0 to 256"]),
        (["hello", "--runtime", "magic"], ["runtime 'magic'", "native"]),
        (["hello", "--weights", "q3"], ["q3", "q8"]),
        (["hello", "--nodes", "-1"], ["max_nodes is -1"]),
        (["hello", "--trace", "no/such/folder/t.jsonl"], ["cannot write"]),
        ([""], ["prompt is empty"]),
        ([], ["no prompt"]),
        (["x" * 600], ["the prompt has", "at most 512"]),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else None,
)
def test_bad_input_is_named_with_a_way_out(run: Run, args: list[str], words: list[str]) -> None:
    done = run("generate", *args)
    assert done.returncode == 2
    assert done.stdout.strip() == ""
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


def test_a_top_k_beyond_the_vocabulary_is_legal(run: Run) -> None:
    assert run("generate", "hi", "-n", "5", "--top-k", "100000", "-t", "1").returncode == 0


def test_stdin_that_is_no_utf8_is_named(run: Run) -> None:
    done = run("generate", "-", stdin=b"ab\xff")
    assert done.returncode == 2
    assert "offset 2" in done.stderr


def test_unknown_and_unsafe_models_are_named(run: Run, tmp_path: Path) -> None:
    unknown = run("generate", "hi", "--model", "smollm", model=False)
    assert unknown.returncode == 2
    assert "smollm2-135m" in unknown.stderr
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    unsafe = run("generate", "hi", "--model", str(tmp_path), model=False)
    assert unsafe.returncode == 2
    assert "UnsafeFile" in unsafe.stderr


def test_a_truncated_weight_file_is_named(run: Run, folder: Path, tmp_path: Path) -> None:
    for path in folder.iterdir():
        data = path.read_bytes()
        short = data[: len(data) // 2] if path.suffix == ".safetensors" else data
        (tmp_path / path.name).write_bytes(short)
    done = run("generate", "hi", "--model", str(tmp_path), model=False)
    assert done.returncode == 2
    assert "ModelCorrupt" in done.stderr
    assert "Traceback" not in done.stderr
