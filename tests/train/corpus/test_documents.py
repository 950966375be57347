"""A corpus is the same however its writing was interrupted, and holds no loops and no copies."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from outpace.train.corpus.documents import Document, Sieve, gather, loops, read_documents


def document(number: int, start: int = 0, n: int = 60) -> Document:
    tokens = tuple((start + i * (i + 3) * 7919) % 9973 for i in range(n))
    return Document(number=number, kind="x", temperature=0.0, prompt=(1, 2, number), answer=tokens)


DOCUMENTS = [document(i, start=1000 * i) for i in range(8)]


def test_a_loop_is_a_text_that_says_the_same_again() -> None:
    assert loops([1, 2, 3, 4, 5] * 20)
    assert not loops(DOCUMENTS[0].answer)
    assert not loops([1] * 20)  # too short to tell


def test_copies_and_loops_are_left_out_and_counted() -> None:
    texts = [
        *DOCUMENTS[:3],
        replace(DOCUMENTS[1], number=3),
        replace(DOCUMENTS[4], answer=(5, 6, 7) * 40),
        replace(DOCUMENTS[5], answer=(), dropped="excluded"),
        *DOCUMENTS[6:],
    ]
    corpus = gather(texts, 5 * DOCUMENTS[0].n_tokens)
    assert corpus is not None
    assert [d.number for d in corpus.documents] == [0, 1, 2, 6, 7]
    assert corpus.left_out == {"copy": 1, "loop": 1, "excluded": 1}


def test_a_near_copy_is_a_copy_and_another_text_is_not() -> None:
    sieve = Sieve()
    assert sieve.verdict(DOCUMENTS[0]) == ""
    changed = (*DOCUMENTS[0].answer[:-1], 5)
    assert sieve.verdict(replace(DOCUMENTS[0], number=1, answer=changed)) == "copy"
    assert sieve.verdict(DOCUMENTS[2]) == ""


def test_a_gap_ends_what_can_be_gathered() -> None:
    n = DOCUMENTS[0].n_tokens
    assert gather([*DOCUMENTS[:2], *DOCUMENTS[3:]], 3 * n) is None
    found = gather([*DOCUMENTS[:2], *DOCUMENTS[3:]], 2 * n)
    assert found is not None
    assert found.n_tokens == 2 * n


@pytest.mark.parametrize("order", [range(8), range(7, -1, -1)])
def test_documents_are_read_by_number_whatever_order_they_ended_in(
    tmp_path: Path, order: range
) -> None:
    path = tmp_path / "documents.jsonl"
    path.write_text("".join(json.dumps(DOCUMENTS[i].line()) + "\n" for i in order))
    with path.open("a") as file:
        file.write('{"number": 8, "ki')  # killed while writing
    assert read_documents(path) == DOCUMENTS
