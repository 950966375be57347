"""What the target writes depends on the seed and the document's number, and on nothing else."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from outpace.errors import ConfigError
from outpace.train.corpus.documents import Document, read_documents
from outpace.train.corpus.prompts import (
    SeedText,
    Words,
    brief,
    prompt_hash,
    read_prompts,
    shipped_seeds,
)
from outpace.train.corpus.scribe import CorpusPlan, Scribe, write_corpus
from train.tiny import tiny_target

SEEDS = [
    SeedText(kind="a", start="say {a}", grow=12),
    SeedText(kind="b", start="whole {n}", grow=0),
    SeedText(kind="c", start="x", grow=9, end="Why {a}?"),
]
PLAN = CorpusPlan(seed=5, n_tokens=10**9, seeds=SEEDS, max_answer=20)


def written(numbers: range, streams: int, plan: CorpusPlan = PLAN) -> dict[int, Document]:
    scribe = Scribe(tiny_target(), plan, streams=streams)
    return {d.number: d for d in scribe.write(iter(numbers))}


def test_neither_company_nor_order_changes_a_document() -> None:
    together = written(range(14), 9)
    assert len(together) == 14
    assert len({d.kind for d in together.values()}) == 3
    assert any(d.answer for d in together.values())
    alone = written(range(13, -1, -1), 1)
    assert together == alone


def test_another_seed_writes_other_documents() -> None:
    assert written(range(6), 6) != written(range(6), 6, replace(PLAN, seed=6))


def test_an_excluded_prompt_is_not_answered() -> None:
    words = Words.of(())
    whole = next(t for n in range(60) if not (t := brief(5, n, SEEDS, words)).grow)
    plan = replace(PLAN, excluded=frozenset({prompt_hash(f"  {whole.start.upper()} ")}))
    found = written(range(whole.number, whole.number + 1), 1, plan)[whole.number]
    assert (found.dropped, found.answer) == ("excluded", ())


def test_what_was_written_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "documents.jsonl"
    told: list[int] = []

    def three_times(total: int) -> bool:
        told.append(total)
        return len(told) < 4

    write_corpus(tiny_target(), PLAN, path, three_times, streams=4)
    before = read_documents(path)
    assert before
    size = path.stat().st_size
    told.clear()
    write_corpus(tiny_target(), PLAN, path, three_times, streams=4)
    after = read_documents(path)
    assert {d.number for d in before} < {d.number for d in after}
    assert path.read_bytes()[:size].count(b"\n") == len(before)
    assert (
        written(range(max(d.number for d in after) + 1), 8).items()
        >= {d.number: d for d in after}.items()
    )


def test_prompts_of_the_users_own_are_answered(tmp_path: Path) -> None:
    file = tmp_path / "own.jsonl"
    said = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Three?"}]
    rows = [{"prompt": "One?"}, {"turns": ["Two?", "no"]}, {"messages": said}]
    file.write_text("\n\n".join(json.dumps(row) for row in rows) + "\n")
    assert read_prompts(file) == ["One?", "Two?", "Three?"]
    bad_rows: list[object] = [{"messages": said[:1]}, {"turns": []}, {"text": "One?"}, ["One?"]]
    for bad in bad_rows:
        file.write_text(json.dumps(bad))
        with pytest.raises(ConfigError, match="line 1: no prompt in it"):
            read_prompts(file)
    model = tiny_target()
    scribe = Scribe(model, replace(PLAN, prompts=("One?", "Two?")), streams=3)
    found = {d.number: d for d in scribe.write(iter(range(3)))}
    assert [list(found[n].prompt) for n in range(3)] == [
        model.encode(text) for text in ("One?", "Two?", "One?")
    ]


def test_some_answers_may_be_longer() -> None:
    words = Words(words=["rivers"], names=["Ada"])
    numbers = [n for n in range(40) if brief(7, n, SEEDS, words).stretch > 1]
    assert 1 <= len(numbers) < 20
    plan = replace(PLAN, seed=7, max_answer=3)
    found = list(Scribe(tiny_target(), plan, streams=8).write(iter(range(40))))
    long = {d.number for d in found if len(d.answer) > plan.max_answer}
    assert long <= set(numbers)
    assert long


def test_shipped_beginnings_can_be_filled() -> None:
    words = Words(words=["rivers"], names=["Ada"])
    kinds = {brief(0, n, shipped_seeds(), words).kind for n in range(300)}
    assert len(kinds) >= 12
    assert all("{" not in brief(0, n, shipped_seeds(), words).start for n in range(300))


def test_a_target_without_turns_writes_plain_texts() -> None:
    model = tiny_target()
    model.template = None
    found = {d.number: d for d in Scribe(model, PLAN, streams=4).write(iter(range(8)))}
    whole = [d for d in found.values() if d.kind == "b" and not d.dropped]
    assert whole
    for d in whole:
        assert model.tokenizer.decode(d.prompt).startswith("whole ")
