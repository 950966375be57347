"""Each line of a batch is answered once and for ever, whatever happens on the way."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from outpace.api import Model
from outpace.batch.run import BatchRun, Progress
from outpace.errors import ConfigError
from small import small_model


def line(name: object, url: str = "/v1/chat/completions", **body: object) -> str:
    asked = body or {"messages": [{"role": "user", "content": f"say {name}"}], "max_tokens": 12,
                     "temperature": 0}  # fmt: skip
    return json.dumps({"custom_id": name, "method": "POST", "url": url, "body": asked})


def written(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("".join(f"{text}\n" for text in lines))
    return path


def answered(path: Path) -> dict[Any, dict[str, Any]]:
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    by_key = {x["custom_id"] or x["error"]["line"]: x for x in lines}
    assert len(by_key) == len(lines), "a line was answered twice"
    return by_key


def go(
    tmp_path: Path, model: Model | None = None, *, stop_after: int | None = None, streams: int = 4
) -> Progress:
    run = BatchRun(tmp_path / "in.jsonl", tmp_path / "out.jsonl", clock=lambda: 1_700_000_000.0)
    model = model or small_model()

    def tell(at: Progress) -> None:
        if stop_after is not None and at.now >= stop_after:
            raise KeyboardInterrupt

    try:
        with model.serve(check_when_idle=True) as service:
            return run.run(model, service, concurrency=streams, tell=tell)
    finally:
        run.close()


def test_answers_are_those_of_the_api(tmp_path: Path) -> None:
    written(tmp_path / "in.jsonl", [
        line("a"),
        line("b", "/v1/completions", prompt="tell me", max_tokens=20, temperature=0),
        line("c", "/v1/completions", prompt=["x", [5, 6]], n=2, max_tokens=5, seed=3),
    ])  # fmt: skip
    progress = go(tmp_path)
    assert (progress.total, progress.before, progress.now, progress.failed) == (3, 0, 3, 0)
    got = answered(tmp_path / "out.jsonl")
    model = small_model()
    a = got["a"]["response"]
    assert (a["status_code"], got["a"]["error"]) == (200, None)
    whole = model.generate("say a", max_tokens=12)
    choice = a["body"]["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": whole.text, "refusal": None}
    assert choice["finish_reason"] == "length"
    assert a["body"]["usage"] == {
        "prompt_tokens": whole.prompt_tokens, "completion_tokens": 12,
        "total_tokens": whole.prompt_tokens + 12,
    }  # fmt: skip
    assert (a["body"]["object"], a["body"]["model"]) == ("chat.completion", "small")
    b = got["b"]["response"]["body"]
    assert b["choices"][0]["text"] == model.generate("tell me", raw=True, max_tokens=20).text
    c = got["c"]["response"]["body"]
    assert [choice["index"] for choice in c["choices"]] == [0, 1, 2, 3]
    texts = [
        model.generate(p, raw=True, max_tokens=5, temperature=1, seed=seed).text
        for p in ("x", [5, 6]) for seed in (3, 4)
    ]  # fmt: skip
    assert [choice["text"] for choice in c["choices"]] == texts
    assert c["usage"]["prompt_tokens"] == 1 + 2


def test_stop_strings_and_logprobs_arrive(tmp_path: Path) -> None:
    whole = small_model().generate("p", raw=True, max_tokens=30).text
    stop = whole[10:12]
    chat = [{"role": "user", "content": "p"}]
    written(tmp_path / "in.jsonl", [
        line("s", "/v1/completions", prompt="p", max_tokens=30, temperature=0, stop=stop),
        line("l", messages=chat, max_tokens=4, temperature=0, logprobs=True, top_logprobs=2),
        line("t", "/v1/completions", prompt="p", max_tokens=4, temperature=0, logprobs=1,
             prompt_logprobs=1),
    ])  # fmt: skip
    go(tmp_path)
    got = answered(tmp_path / "out.jsonl")
    choice = got["s"]["response"]["body"]["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == (whole[: whole.index(stop)], "stop")
    content = got["l"]["response"]["body"]["choices"][0]["logprobs"]["content"]
    assert len(content) == 4
    assert all(t["top_logprobs"][0]["logprob"] == t["logprob"] <= 0 for t in content), "greedy"
    text = got["t"]["response"]["body"]["choices"][0]
    assert "".join(text["logprobs"]["tokens"]) == text["text"]
    assert text["logprobs"]["text_offset"][0] == 0
    assert text["prompt_logprobs"] == [None], "one prompt token has no row before it"


def test_errors_are_lines_too(tmp_path: Path) -> None:
    written(tmp_path / "in.jsonl", [
        "not json", "", line(""), line("a"), line("a"), "[1]",
        line("unknown", messages=[{"role": "user", "content": "x"}], colour="red"),
        line("url", "/v1/embeddings", input="x"),
        line("long", "/v1/completions", prompt="x" * 400),
        json.dumps({"custom_id": "get", "method": "GET", "url": "/v1/completions", "body": {}}),
        json.dumps({"custom_id": "extra", "method": "POST", "url": "/v1/completions", "x": 1}),
    ])  # fmt: skip
    progress = go(tmp_path)
    got = answered(tmp_path / "out.jsonl")
    assert set(got) == {1, 3, "a", 5, 6, "unknown", "url", "long", "get", "extra"}
    assert (progress.total, progress.now, progress.failed) == (10, 10, 9)
    for at in (1, 3, 5, 6):
        assert got[at]["response"] is None
        assert got[at]["error"]["code"] == "invalid_line"
    assert "twice" in got[5]["error"]["message"]
    for key, words in {
        "unknown": "unknown fields colour", "url": "/v1/embeddings", "long": "400 tokens",
        "get": "GET", "extra": "unknown x",
    }.items():  # fmt: skip
        assert got[key]["error"] is None
        assert got[key]["response"]["status_code"] == 400
        assert words in got[key]["response"]["body"]["error"]["message"]
    before = (tmp_path / "out.jsonl").read_bytes()
    assert go(tmp_path).before == 10
    assert (tmp_path / "out.jsonl").read_bytes() == before, "nothing is answered again"


@pytest.mark.parametrize("cut", [1, 40, 300])
def test_a_run_that_was_cut_goes_on(tmp_path: Path, cut: int) -> None:
    written(tmp_path / "in.jsonl", [line(f"r{i}") for i in range(20)])
    with pytest.raises(KeyboardInterrupt):
        go(tmp_path, stop_after=7)
    out = tmp_path / "out.jsonl"
    lines = out.read_bytes().splitlines(keepends=True)
    assert 7 <= len(lines) < 20
    out.write_bytes(b"".join(lines)[:-cut])
    progress = go(tmp_path)
    assert progress.before == len(lines) - 1
    assert out.read_bytes().startswith(b"".join(lines[:-1])), "what was whole is as it was"
    assert len(answered(out)) == 20


def test_other_files_are_refused(tmp_path: Path) -> None:
    written(tmp_path / "in.jsonl", [line("a"), line("b")])
    go(tmp_path)
    written(tmp_path / "in.jsonl", [line("a", messages=[{"role": "user", "content": "other"}])])
    with pytest.raises(ConfigError, match="another request 'a'"):
        go(tmp_path)
    (tmp_path / "out.jsonl").write_text('{"x": 1}\n')
    with pytest.raises(ConfigError, match="no answer of a batch"):
        go(tmp_path)
    with pytest.raises(ConfigError, match="both input and output"):
        BatchRun(tmp_path / "in.jsonl", tmp_path / "in.jsonl")
    with pytest.raises(ConfigError, match="cannot read"):
        BatchRun(tmp_path / "none", tmp_path / "out.jsonl")
