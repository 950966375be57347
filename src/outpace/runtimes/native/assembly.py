"""From what sequences ask to one `Pass`, and from its result back.

Almost every pass of plain decoding, and of chains, is a few rows that follow each other; the
arrays of those are built at the speed of C, without a loop over tokens here.
"""

from array import array
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from outpace.core.score import Rows, Scores
from outpace.errors import ContractError
from outpace.runtimes.native.passes import Int32, Pass, PassResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One sequence's rows, what earlier passes left of it, and its page numbers in order."""

    rows: Rows
    n_cached: int
    pages: Int32


@lru_cache(maxsize=1024)
def chain(n: int) -> tuple[int, ...]:
    """The parents of n rows that follow each other."""
    return tuple(range(-1, n - 1))


def assemble(parts: Seq[Part], *, vocab_size: int, context_tokens: int) -> Pass:
    """One pass over the rows of all parts, in their order.

    Raises:
        ContractError: a token, parent, position or asked row that cannot be.
    """
    tokens, positions, parents = array("i"), array("i"), array("i")
    asked, starts = array("i"), array("i", (0,))
    for part in parts:
        rows, start, n = part.rows, len(tokens), len(part.rows.tokens)
        tokens.extend(rows.tokens)
        if tuple(rows.parents) == chain(n):
            parents.append(-1)
            parents.extend(range(start, start + n - 1))
            positions.extend(range(part.n_cached, part.n_cached + n))
        else:
            _branch(part, start, positions, parents)
        _ask(rows, start, n, asked)
        starts.append(start + n)
    rows_pass = Pass(
        tokens_R=np.frombuffer(tokens, np.int32),
        positions_R=np.frombuffer(positions, np.int32),
        parents_R=np.frombuffer(parents, np.int32),
        starts_S1=np.frombuffer(starts, np.int32),
        n_cached_S=np.array([part.n_cached for part in parts], np.int32),
        tables_SP=_tables(parts),
        asked_A=np.frombuffer(asked, np.int32) if asked else np.empty(0, np.int32),
        logits=any(part.rows.logits and len(part.rows.asked) > 0 for part in parts),
    )
    if max(tokens) >= vocab_size or min(tokens) < 0:
        raise ContractError(
            f"token ids {min(tokens)} to {max(tokens)} in a pass; the model's are 0 to "
            f"{vocab_size - 1}"
        )
    if max(positions) >= context_tokens:
        raise ContractError(
            f"a row at position {max(positions)}; the context ends at {context_tokens - 1}"
        )
    return rows_pass


def divide(parts: Seq[Part], computed: Pass, result: PassResult) -> list[Scores]:
    """Each part's share of the result."""
    scores: list[Scores] = []
    first = 0
    for s, part in enumerate(parts):
        n_asked, rows = len(part.rows.asked), part.rows
        logits_AV, best_A, hidden_RH = result.logits_AV, result.best_A, result.hidden_RH
        if len(parts) > 1:
            start, end = computed.starts_S1[s : s + 2].tolist()
            hidden_RH = None if hidden_RH is None else hidden_RH[start:end]
            logits_AV = None if logits_AV is None else logits_AV[first : first + n_asked]
            best_A = None if best_A is None else best_A[first : first + n_asked]
        first += n_asked
        if not n_asked:
            scores.append(Scores(hidden_RH=hidden_RH))
        elif rows.logits:
            scores.append(Scores(logits_AV=logits_AV, hidden_RH=hidden_RH))
        else:
            # A neighbour wanted logits: then they may be all there is. First index wins a tie.
            if best_A is None and logits_AV is not None:
                best_A = logits_AV.argmax(-1).tolist()
            scores.append(Scores(best_A=best_A, hidden_RH=hidden_RH))
    return scores


def _branch(part: Part, start: int, positions: "array[int]", parents: "array[int]") -> None:
    rows = part.rows
    if len(rows.parents) != len(rows.tokens):
        raise ContractError(
            f"sequence {rows.key}: {len(rows.tokens)} rows with {len(rows.parents)} parents"
        )
    at: list[int] = []
    for row, parent in enumerate(rows.parents):
        if not -1 <= parent < row:
            raise ContractError(
                f"sequence {rows.key}: row {row} has parent {parent}; parents come first"
            )
        at.append(part.n_cached if parent == -1 else at[parent] + 1)
        parents.append(-1 if parent == -1 else start + parent)
    positions.extend(at)


def _ask(rows: Rows, start: int, n: int, asked: "array[int]") -> None:
    wanted = rows.asked
    last = -1
    for row in wanted:
        if not last < row < n:
            raise ContractError(
                f"sequence {rows.key} asks for rows {list(wanted)} of {n}; they must ascend"
            )
        last = row
        asked.append(start + row)


def _tables(parts: Seq[Part]) -> Int32:
    if len(parts) == 1:
        return parts[0].pages[None, :]
    tables_SP = np.full((len(parts), max(len(part.pages) for part in parts)), -1, np.int32)
    for row, part in zip(tables_SP, parts, strict=True):
        row[: len(part.pages)] = part.pages
    return tables_SP
