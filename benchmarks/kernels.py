"""How long a pass takes, by rows, beside the time to read its weights once.

    python benchmarks/kernels.py [--shape smollm2-135m] [--formats q8,q4] [--rows 1,2,4,8,16,32]

Weights are random, of a real model's shape: speed does not depend on their values, and no file is
needed. Every repetition reads the weights, then makes passes of every row count, so that a noisy
neighbour meets all of them; the least and the quartiles are printed. A machine that others use
gives useless medians: as root, `chrt -f 10` in front keeps them away for the few seconds it takes.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from outpace.runtimes.native.kernels import (
    GGML,
    Fine,
    Format,
    KernelDecoder,
    LayerWeights,
    Matrix,
    ModelSpec,
)
from outpace.runtimes.native.passes import Pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes of a model."""

    hidden: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    gemma: bool = False


SHAPES = {
    "smollm2-135m": Shape(
        hidden=576, n_layers=30, n_heads=9, n_kv_heads=3, head_dim=64, ffn=1536, vocab=49152
    ),
    "gemma3-270m": Shape(
        hidden=640,
        n_layers=18,
        n_heads=4,
        n_kv_heads=1,
        head_dim=256,
        ffn=2048,
        vocab=262_144,
        gemma=True,
    ),
}
# Formats of the layers and of the embedding, which is the head, too.
FORMATS = {
    "q8": (Format.Q8, Format.Q8),
    "q4": (Format.Q4, Format.Q8),
    "bf16": (Format.BF16, Format.BF16),
    "f32": (Format.F32, Format.F32),
}


def build(
    shape: Shape, formats: tuple[Format, Format], max_positions: int, fine_rows: Fine
) -> ModelSpec:
    """A model of random weights; matrices of one size share one draw, not their memory."""
    rng = np.random.default_rng(0)
    H, q, kv = shape.hidden, shape.n_heads * shape.head_dim, shape.n_kv_heads * shape.head_dim

    def matrix(n: int, k: int, target: Format = formats[0]) -> Matrix:
        w = rng.standard_normal((n, k), np.float32) * np.float32(k**-0.5)
        return Matrix.pack(w, GGML.F32, n=n, k=k, target=target)

    ones, heads = np.ones(H, np.float32), np.ones(shape.head_dim, np.float32)
    layers = tuple(
        LayerWeights(
            q=matrix(q, H),
            k=matrix(kv, H),
            v=matrix(kv, H),
            o=matrix(H, q),
            gate=matrix(shape.ffn, H),
            up=matrix(shape.ffn, H),
            down=matrix(H, shape.ffn),
            norm_attention=ones,
            norm_ffn=ones,
            norm_after_attention=ones if shape.gemma else None,
            norm_after_ffn=ones if shape.gemma else None,
            norm_q=heads if shape.gemma else None,
            norm_k=heads if shape.gemma else None,
            window=512 if shape.gemma and (i + 1) % 6 else 0,
        )
        for i in range(shape.n_layers)
    )
    angles = np.arange(max_positions)[:, None] * 1e4 ** -np.linspace(0, 1, shape.head_dim // 2)
    embedding = matrix(shape.vocab, H, formats[1])
    return ModelSpec(
        hidden=H,
        n_heads=shape.n_heads,
        n_kv_heads=shape.n_kv_heads,
        head_dim=shape.head_dim,
        ffn=shape.ffn,
        vocab=shape.vocab,
        layers=layers,
        embedding=embedding,
        head=embedding,
        norm_final=ones,
        ropes=((np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)),),
        max_positions=max_positions,
        rope_dim=shape.head_dim,
        eps=1e-5,
        attention_scale=shape.head_dim**-0.5,
        gelu=shape.gemma,
        fine_rows=fine_rows,
    )


def chain(n_rows: int, cached: int, page_size: int, asked: int) -> Pass:
    """n_rows that follow each other and `cached` tokens; the last `asked` of them are asked for."""
    n_pages = -(-(cached + n_rows) // page_size)
    return Pass(
        tokens_R=np.arange(n_rows, dtype=np.int32) * 7 % 40_000,
        positions_R=np.arange(cached, cached + n_rows, dtype=np.int32),
        parents_R=np.arange(-1, n_rows - 1, dtype=np.int32),
        starts_S1=np.array([0, n_rows], np.int32),
        n_cached_S=np.array([cached], np.int32),
        tables_SP=np.arange(n_pages, dtype=np.int32)[None],
        asked_A=np.arange(n_rows - asked, n_rows, dtype=np.int32),
        logits=False,
    )


def timed(call: Callable[[], object]) -> float:
    """Milliseconds."""
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def quartiles(times: list[float]) -> dict[str, float]:
    """The least, and the quartiles."""
    low, middle, high = np.percentile(times, [25, 50, 75])
    return {"min": min(times), "p25": float(low), "p50": float(middle), "p75": float(high)}


def measure(decoder: KernelDecoder, args: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Times of reading the weights, of passes by rows, and of a prefill, interleaved."""
    rows = [int(r) for r in args.rows.split(",")]
    passes = {f"{r} rows": chain(r, args.context, 64, r) for r in rows}
    prefill = chain(args.prefill, 0, 64, 1)
    decoder.forward(chain(args.context, 0, 64, 1))
    times: dict[str, list[float]] = {"read": [], **{name: [] for name in passes}, "prefill": []}
    for repetition in range(args.repetitions):
        for name, rows_pass in passes.items():
            times["read"].append(decoder.read_weights_s() * 1e3)
            times[name] += [timed(partial(decoder.forward, rows_pass)) for _ in range(3)]
        if repetition % 8 == 0:
            times["prefill"].append(timed(partial(decoder.forward, prefill)))
            decoder.forward(chain(args.context, 0, 64, 1))
    return {name: quartiles(some) for name, some in times.items()}


def main() -> None:
    """Measure and print; `--json` for one document."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shape", choices=SHAPES, default="smollm2-135m")
    parser.add_argument("--formats", default="q8,q4")
    parser.add_argument("--rows", default="1,2,4,8,16,32")
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--repetitions", type=int, default=40)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--path", help="an instruction set: avx512, avxvnni, avx2, neon, plain")
    parser.add_argument("--fine", type=int, default=0, help="rows of 15 bits: 31 is all products")
    parser.add_argument("--profile", action="store_true", help="seconds of each kind of phase")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    report: dict[str, object] = {}
    for name in args.formats.split(","):
        most = max(args.context + max(int(r) for r in args.rows.split(",")), args.prefill)
        spec = build(SHAPES[args.shape], FORMATS[name], most, Fine(args.fine))
        n_pages = -(-most // 64) + 1
        decoder = KernelDecoder(spec, n_pages=n_pages, n_threads=args.threads, path=args.path)
        times = measure(decoder, args)
        report[name] = {"path": decoder.path, "times_ms": times}
        if not args.json:
            show(f"{args.shape} {name} ({decoder.path})", times)
        if args.profile:
            for rows in args.rows.split(","):
                phases = decoder.profile(chain(int(rows), args.context, 64, int(rows)))
                parts = " ".join(f"{k} {v * 1e3:.2f}" for k, v in phases.items())
                print(f"  {rows} rows, ms: {parts}", file=sys.stderr)
        decoder.close()
    if args.json:
        print(json.dumps(report, indent=1))


def show(title: str, times: dict[str, dict[str, float]]) -> None:
    """A table: milliseconds, and ratios of the 25th percentiles."""
    print(f"{title}\n{'':>10} {'min':>8} {'p25':>8} {'p50':>8} {'/ read':>8} {'/ 1 row':>8}")
    read, one = times["read"]["p25"], times.get("1 rows", times["read"])["p25"]
    for name, t in times.items():
        ratios = f"{t['p25'] / read:8.2f} {t['p25'] / one:8.2f}"
        print(f"{name:>10} {t['min']:8.2f} {t['p25']:8.2f} {t['p50']:8.2f} {ratios}")


if __name__ == "__main__":
    main()
