"""Phase 2, features: what the target's layers hold at every row of the corpus's answers.

The finished texts are read again in one go (teacher forcing). Of each answer are stored, in half
precision and over their root mean square, the residual streams after the tapped layers and the last
one, for every row from the prompt's last to the answer's last, and the logarithm of the sum of
exponentials of its logits; that and the last stream give the target's law back over any part of
its vocabulary.
"""

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from outpace.core.score import Rows, Runtime
from outpace.drafters.head.files import EPS
from outpace.errors import CapacityError, ContractError
from outpace.journal import Journal, read_lines
from outpace.train.corpus.documents import Document

ROWS_PER_PASS = 512
_STREAMS, _SUMS, _INDEX = "streams.f16", "sums.f32", "index.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer's features.

    tokens: of the answer, A of them. streams_RTH: fp16, A + 1 rows: before the first token, and
    after each. log_sum_R: of the exponentials of each row's logits.
    """

    kind: str
    tokens: NDArray[np.int32]
    streams_RTH: NDArray[np.float16]
    log_sum_R: NDArray[np.float32]


class Features:
    """Features on disk, made or continued: documents in order, as far as they go.

    taps: layers whose streams are stored, the last one of the model among them. max_bytes: what
    the folder may take.
    """

    def __init__(self, folder: Path, *, n_taps: int, hidden: int, max_bytes: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._n_taps, self._hidden = folder, n_taps, hidden
        self._max_bytes = max_bytes
        index = folder / _INDEX
        self._done = [line for _, line in read_lines(index)] if index.exists() else []
        self.n_rows = sum(int(line["rows"]) for line in self._done)

    @property
    def row_bytes(self) -> int:
        """Disk space of one row."""
        return 2 * self._n_taps * self._hidden + 4

    def compute(
        self, runtime: Runtime, documents: Seq[Document], tell: Callable[[int], bool]
    ) -> bool:
        """Read the documents that are missing; False when stopped by `tell` or by the budget.

        tell: given the number of documents done.
        """
        if [d.number for d in documents[: len(self._done)]] != [d["number"] for d in self._done]:
            raise ContractError(
                f"the features in {self._folder} are of another corpus; remove that folder"
            )
        with (
            Journal(self._folder / _INDEX) as index,
            (self._folder / _STREAMS).open("ab") as streams,
            (self._folder / _SUMS).open("ab") as sums,
        ):
            streams.truncate(self.n_rows * 2 * self._n_taps * self._hidden)
            sums.truncate(self.n_rows * 4)
            for batch in _batches(documents[len(self._done) :]):
                new = sum(len(d.answer) + 1 for d in batch)
                if (self.n_rows + new) * self.row_bytes > self._max_bytes:
                    return False
                for document, (x_RF, sum_R) in zip(
                    batch, _read(runtime, batch, self._hidden), strict=True
                ):
                    streams.write(x_RF.tobytes())
                    sums.write(sum_R.tobytes())
                    self._done.append({"number": document.number, "rows": len(sum_R)})
                    self.n_rows += len(sum_R)
                streams.flush()
                sums.flush()
                for line in self._done[-len(batch) :]:
                    index.append(line)
                if not tell(len(self._done)):
                    return False
        return True

    def answers(self, documents: Seq[Document]) -> list[Answer]:
        """Those of the documents that are done, mapped from the disk."""
        if not self._done:
            return []
        shape = (self.n_rows, self._n_taps, self._hidden)
        streams = np.memmap(self._folder / _STREAMS, np.float16, "r", shape=shape)
        sums = np.memmap(self._folder / _SUMS, np.float32, "r", shape=(self.n_rows,))
        found: list[Answer] = []
        at = 0
        for document, line in zip(documents, self._done, strict=False):
            end = at + int(line["rows"])
            found.append(
                Answer(
                    kind=document.kind,
                    tokens=np.array(document.answer, np.int32),
                    streams_RTH=streams[at:end],
                    log_sum_R=sums[at:end],
                )
            )
            at = end
        return found


def _batches(documents: Seq[Document]) -> Iterator[list[Document]]:
    batch: list[Document] = []
    rows = 0
    for document in documents:
        if batch and rows + document.n_tokens > ROWS_PER_PASS:
            yield batch
            batch, rows = [], 0
        batch.append(document)
        rows += document.n_tokens
    if batch:
        yield batch


def _halved(streams_RF: Tensor, hidden: int) -> NDArray[np.float16]:
    """Streams over their root mean squares, in half precision.

    A head reads nothing else of them, and as they are some models' would overflow.
    """
    x_RTH = streams_RF.view(len(streams_RF), -1, hidden)
    x_RTH = x_RTH * (x_RTH.square().mean(-1, keepdim=True) + EPS).rsqrt()
    return x_RTH.numpy().astype(np.float16)


def _read(
    runtime: Runtime, batch: Seq[Document], hidden: int
) -> list[tuple[NDArray[np.float16], NDArray[np.float32]]]:
    getattr(runtime, "forget_beginnings", lambda: None)()
    rows: list[Rows] = []
    try:
        for key, d in enumerate(batch):
            text = (*d.prompt, *d.answer)
            runtime.open(key, text)
            runtime.reserve(key, len(text))
            asked = range(len(d.prompt) - 1, len(text))
            rows.append(
                Rows(key=key, tokens=text, parents=range(-1, len(text) - 1), asked=asked)
            )  # fmt: skip
        scores = runtime.extend(rows)
        found = []
        for row, score in zip(rows, scores, strict=True):
            if score.hidden_RH is None or score.logits_AV is None:
                raise ContractError("the runtime was opened without hidden states")
            found.append(
                (
                    _halved(score.hidden_RH[row.asked[0] :], hidden),
                    torch.logsumexp(score.logits_AV, -1).numpy(),
                )
            )
        return found
    except CapacityError as error:
        raise CapacityError(f"too little memory to read the corpus again: {error}") from error
    finally:
        for key in range(len(batch)):
            runtime.close(key)
