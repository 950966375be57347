"""How far each weight format and backend is from fp32 on the same file's weights, on real text.

Teacher-forced: the text is cut into windows, every position's law is computed by fp32 torch and by
each arm, and compared: KL(fp32 || arm) in nats a token, how often both put the same token first,
and the text's own loss. Intervals are 95 %, from the spread between windows.

    python benchmarks/precision.py MODEL TEXT_FILE --tokens 20000 --arms torch:q4,compiled:q4

With `--llama-python PYTHON`, an interpreter that has llama-cpp-python (`make bench-peers` makes one
at .venv-peers/llama/bin/python), llama.cpp's own laws of the same GGUF file on the same ids join.
Run it with two threads to spare; fp32 is the slow part.
"""

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import mean, stdev

import numpy as np
import torch
from torch import Tensor

from outpace.models.files import ModelFiles
from outpace.models.resolve import resolve
from outpace.models.weights import open_weights
from outpace.runtimes.native.load import Loaded, Wish, load_decoder
from outpace.runtimes.native.passes import Decoder, Pass
from outpace.text.tokenizer import Tokenizer

PAGE = 64
ASKED_AT_ONCE = 64
DEFAULT_ARMS = "torch:bf16,torch:q8,torch:q4,compiled:fp32,compiled:bf16,compiled:q8,compiled:q4"


Window = np.ndarray[tuple[int], np.dtype[np.int32]]
Law = Callable[[Window, int], Tensor]

# Reads windows of ids as JSON lines, writes the raw logits of all their rows as fp32.
_LLAMA = """
import json, sys
from llama_cpp import Llama
import numpy
model = Llama(sys.argv[1], n_ctx=int(sys.argv[2]), n_batch=int(sys.argv[2]), logits_all=True,
              n_threads=int(sys.argv[3]), n_threads_batch=int(sys.argv[3]), verbose=False)
for line in sys.stdin:
    ids = json.loads(line)
    model.reset()
    model.eval(ids)
    rows = numpy.ascontiguousarray(model.scores[:len(ids)], numpy.float32)
    sys.stdout.buffer.write(rows.tobytes())
    sys.stdout.buffer.flush()
"""


class LlamaLaws:
    """llama.cpp in a process of its own; a window is evaluated in one batch when it first comes."""

    def __init__(self, python: str, model: Path, *, window: int, vocab: int, threads: int) -> None:
        command = [python, "-c", _LLAMA, str(model), str(window), str(threads)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._vocab = vocab
        self._rows = torch.empty(0)

    def __call__(self, window: Window, first: int) -> Tensor:
        if first == 0:
            stdin, stdout = self._process.stdin, self._process.stdout
            assert stdin is not None
            assert stdout is not None
            stdin.write((json.dumps(window.tolist()) + "\n").encode())
            stdin.flush()
            raw = stdout.read(4 * len(window) * self._vocab)
            self._rows = torch.frombuffer(bytearray(raw), dtype=torch.float32).view(
                len(window), self._vocab
            )
        return self._rows[first : first + ASKED_AT_ONCE].log_softmax(1)


@dataclass(slots=True)
class Tally:
    """Sums of one arm: one value a window in each list, and seconds of its passes."""

    facts: dict[str, object]
    law: Law
    kl: list[float] = field(default_factory=list)
    agree: list[float] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    seconds: float = 0.0


def law(decoder: Decoder, window: Window, first: int) -> Tensor:
    """Log-probabilities of rows first to first + ASKED_AT_ONCE, the rows before them cached."""
    tokens_R = window[first : first + ASKED_AT_ONCE]
    n_rows = len(tokens_R)
    rows = Pass(
        tokens_R=tokens_R,
        positions_R=np.arange(first, first + n_rows, dtype=np.int32),
        parents_R=np.arange(-1, n_rows - 1, dtype=np.int32),
        starts_S1=np.array([0, n_rows], np.int32),
        n_cached_S=np.array([first], np.int32),
        tables_SP=np.arange(decoder.n_pages, dtype=np.int32)[None],
        asked_A=np.arange(n_rows, dtype=np.int32),
        logits=True,
    )
    logits_AV = decoder.forward(rows).logits_AV
    assert logits_AV is not None
    return logits_AV.log_softmax(1)


def tally_of(loaded: Loaded) -> Tally:
    """An arm of this project's own."""
    facts: dict[str, object] = {
        "backend": loaded.backend,
        "format": loaded.format,
        "description": loaded.description,
    }
    return Tally(facts=facts, law=partial(law, loaded.decoder))


def compare(true: Tally, arms: list[Tally], window: Window) -> None:
    """Add one window to every tally."""
    sums = {id(tally): np.zeros(3) for tally in (true, *arms)}
    for first in range(0, len(window) - 1, ASKED_AT_ONCE):
        log_p_AV = _timed(true, window, first)
        p_AV, best_A = log_p_AV.exp(), log_p_AV.argmax(1)
        next_A = torch.from_numpy(window[first + 1 : first + 1 + len(log_p_AV)].astype(np.int64))
        for tally in (true, *arms):
            log_q_AV = log_p_AV if tally is true else _timed(tally, window, first)
            kl = (p_AV * (log_p_AV - log_q_AV)).sum().item()
            same = (log_q_AV.argmax(1) == best_A).sum().item()
            loss = -log_q_AV[torch.arange(len(next_A)), next_A].sum().item()
            sums[id(tally)] += (kl, same, loss)
    for tally in (true, *arms):
        kl, same, loss = sums[id(tally)].tolist()
        tally.kl.append(kl / len(window))
        tally.agree.append(same / len(window))
        tally.loss.append(loss / (len(window) - 1))


def _timed(tally: Tally, window: Window, first: int) -> Tensor:
    began = time.process_time()
    log_q_AV = tally.law(window, first)
    tally.seconds += time.process_time() - began
    return log_q_AV


def interval(values: list[float]) -> tuple[float, float]:
    """Mean, and half the width of its 95 % interval."""
    spread = stdev(values) if len(values) > 1 else math.nan
    return mean(values), 1.96 * spread / math.sqrt(len(values))


def tokenize(files: ModelFiles, text: str) -> list[int]:
    """Ids of the text, with a beginning token where the model wants one."""
    weights = open_weights(files)
    gguf = files.kind == "gguf"
    tokenizer = Tokenizer.from_gguf(weights.gguf) if gguf else Tokenizer.from_folder(files.root)
    return tokenizer.encode(text, special=False)


def report(tally: Tally, n_tokens: int) -> dict[str, object]:
    """One arm as JSON."""
    kl, agree, loss = interval(tally.kl), interval(tally.agree), interval(tally.loss)
    return {
        **tally.facts,
        "tokens": n_tokens,
        "kl_nats": kl[0],
        "kl_pm": kl[1],
        "top1": agree[0],
        "top1_pm": agree[1],
        "loss_nats": loss[0],
        "cpu_s": tally.seconds,
    }


def main() -> None:
    """Print one JSON document; progress goes to stderr."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("text", type=Path)
    parser.add_argument("--tokens", type=int, default=20_000)
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--arms", default=DEFAULT_ARMS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--llama-python", help="interpreter that has llama-cpp-python")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    files = resolve(options.model)
    n_pages = -(-options.window // PAGE)

    def open_arm(backend: str, weights: str) -> Tally:
        wish = Wish(
            backend=backend, weights=weights, device="cpu", n_pages=n_pages, page_size=PAGE,
            threads=options.threads,
        )  # fmt: skip
        return tally_of(load_decoder(files, wish))

    ids = np.array(tokenize(files, options.text.read_text("utf-8"))[: options.tokens], np.int32)
    reference = load_decoder(
        files,
        Wish(backend="torch", weights="fp32", device="cpu", n_pages=n_pages, page_size=PAGE),
    )
    true = tally_of(reference)
    arms = [open_arm(*arm.split(":")) for arm in options.arms.split(",")]
    if options.llama_python is not None:
        laws = LlamaLaws(
            options.llama_python, files.weights[0], window=options.window,
            vocab=reference.spec.vocab_size, threads=options.threads,
        )  # fmt: skip
        arms.append(Tally(facts={"backend": "llama.cpp", "format": "the file's own"}, law=laws))
    windows = [ids[i : i + options.window] for i in range(0, len(ids), options.window)]
    windows = [window for window in windows if len(window) > 1]
    for i, window in enumerate(windows):
        compare(true, arms, window)
        print(f"window {i + 1} of {len(windows)}", file=sys.stderr)
    n_tokens = sum(len(window) for window in windows)
    arms_json = [report(tally, n_tokens) for tally in (true, *arms)]
    print(json.dumps({"model": options.model, "text": options.text.name, "arms": arms_json}))


if __name__ == "__main__":
    main()
