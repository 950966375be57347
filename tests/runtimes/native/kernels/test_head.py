"""The compiled head takes the steps of the one in numpy, whatever shares its call."""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from drafters.head.tiny import tiny_head
from outpace.drafters.head.files import EPS, Head, HeadConfig, HeadShape, pack
from outpace.drafters.head.steps import NumpySteps
from outpace.errors import ContractError, ModelUnsupported
from outpace.runtimes.native.kernels import KernelDecoder, paths, why_missing
from outpace.runtimes.native.kernels.head import KernelHead
from runtimes.native.kernels.tiny import Tiny, build

pytestmark = pytest.mark.skipif(why_missing() is not None, reason=str(why_missing()))

SHAPE = HeadShape(
    hidden=96, taps=(1, 2, 4), embed=32, inner=160, root_inner=64, vocab=120, draft=77
)
Floats = NDArray[np.float32]


def wide_head() -> Head:
    rng = np.random.default_rng(3)
    blocks = dict.fromkeys(SHAPE.matrices, "Q8_0")
    values = {
        name: (rng.standard_normal((n, k)) * (4 if name == "out" else 1) / k**0.5).astype(
            np.float32
        )
        for name, (n, k) in SHAPE.matrices.items()
    }
    packed = pack(values, blocks)
    return Head(
        config=HeadConfig(target="x", digest="x", shape=SHAPE, blocks=blocks),
        matrices={name: ("Q8_0", *SHAPE.matrices[name], packed[name]) for name in packed},
        ids_D=np.sort(rng.permutation(120)[:77]).astype(np.int32),
    )


def compiled(decoder: KernelDecoder, head: Head) -> KernelHead:
    n_taps = len(head.config.shape.taps)
    return KernelHead(decoder, head.matrices, head.ids_D, n_taps=n_taps, eps=EPS)


@pytest.fixture(params=[*((path, 1) for path in paths()), (None, 2)], ids=str)
def decoder(request: pytest.FixtureRequest) -> Iterator[KernelDecoder]:
    path, n_threads = request.param
    made = KernelDecoder(build(Tiny()), n_pages=2, page_size=16, n_threads=n_threads, path=path)
    yield made
    made.close()


def roots(head: Head, n: int, seed: int = 0) -> tuple[Floats, NDArray[np.int32]]:
    rng = np.random.default_rng(seed)
    shape = head.config.shape
    hidden = 30 * rng.standard_normal((n, shape.hidden * len(shape.taps)))
    return hidden.astype(np.float32), rng.integers(0, shape.vocab, n).astype(np.int32)


def limits(n: int, *, nodes: int = 9, depth: int = 4, width: int = 3) -> dict[str, NDArray]:  # type: ignore[type-arg]
    return {
        "max_nodes_S": np.full(n, nodes, np.int32),
        "max_depths_S": np.full(n, depth, np.int32),
        "widths_S": np.full(n, width, np.int32),
        "worths_S": np.full(n, 1e-4, np.float32),
        "sharpness_S": np.full(n, 1.2, np.float32),
    }


def error(found: Floats, wanted: Floats) -> float:
    """Root mean square of what differs, over the deviation of what is wanted."""
    return float(np.sqrt(np.mean((found - wanted) ** 2)) / wanted.std())


@pytest.mark.parametrize("head", [tiny_head(), wide_head()], ids=["tiny", "wide"])
def test_steps_are_those_of_numpy(decoder: KernelDecoder, head: Head) -> None:
    fast, slow = compiled(decoder, head), NumpySteps(head)
    hidden, tokens = roots(head, 70)
    states, logits = fast.rows(hidden, tokens, roots=True)
    expected, expected_logits = slow.rows(hidden, tokens, roots=True)
    assert error(states, expected) < 0.03
    assert error(logits, expected_logits) < 0.03
    below, below_logits = fast.rows(expected, tokens[::-1].copy(), roots=False)
    expected, expected_logits = slow.rows(expected, tokens[::-1].copy(), roots=False)
    assert error(below, expected) < 0.03
    assert error(below_logits, expected_logits) < 0.03
    fast.close()


def test_late_threads_never_see_the_next_plan() -> None:
    """Levels of many sizes, and more threads than cores: some are still in the last one."""
    head = wide_head()
    alone, crowd = (
        KernelDecoder(build(Tiny()), n_pages=2, page_size=16, n_threads=n) for n in (1, 12)
    )
    steady, hasty = compiled(alone, head), compiled(crowd, head)
    for n in range(1, 41):
        hidden, tokens = roots(head, n % 7 + 1, seed=n)
        sizes = limits(len(tokens), nodes=n % 11 + 1, depth=n % 5 + 1)
        assert hasty.grow(hidden, tokens, **sizes) == steady.grow(hidden, tokens, **sizes)
    alone.close()
    crowd.close()


def test_a_tree_is_the_likeliest_by_the_heads_own_steps(decoder: KernelDecoder) -> None:
    """Every chance is the product of the laws along its path, and no child left out is likelier."""
    head = wide_head()
    fast = compiled(decoder, head)
    hidden, tokens = roots(head, 1)
    ((guesses, parents, chances),) = fast.grow(hidden, tokens, **limits(1))
    assert len(guesses) == 9
    assert chances == sorted(chances, reverse=True)
    states: dict[int, Floats] = {}
    offered: list[float] = []
    depths = {-1: 0}
    for node in range(-1, len(guesses)):
        token = tokens if node < 0 else np.array([guesses[node]], np.int32)
        start = hidden if node < 0 else states[parents[node]]
        states[node], logits = fast.rows(start, token, roots=node < 0)
        depths[node] = 0 if node < 0 else depths[parents[node]] + 1
        x = 1.2 * logits[0].astype(np.float64)
        law = np.exp(x - x.max()) / np.exp(x - x.max()).sum()
        above = 1.0 if node < 0 else chances[node]
        mine = {g: c for g, c, p in zip(guesses, chances, parents, strict=True) if p == node}
        best = np.argsort(-law, kind="stable")[:3]
        for place in best:
            guess = int(head.ids_D[place])
            if guess in mine:
                assert mine[guess] == pytest.approx(above * law[place], rel=1e-4)
            elif depths[node] < 4:
                offered.append(above * law[place])
    assert max(offered) <= min(chances) * (1 + 1e-4)
    fast.close()


def test_neighbours_change_nothing(decoder: KernelDecoder) -> None:
    head = wide_head()
    fast = compiled(decoder, head)
    hidden, tokens = roots(head, 90)
    together = fast.grow(hidden, tokens, **limits(90))
    for s in (0, 41, 63, 64, 89):
        assert fast.grow(hidden[s : s + 1], tokens[s : s + 1], **limits(1)) == [together[s]]
    fast.close()


@pytest.mark.parametrize(("nodes", "depth"), [(0, 3), (3, 0), (1, 1), (16, 2), (5, 9)])
def test_limits_hold(decoder: KernelDecoder, nodes: int, depth: int) -> None:
    head = wide_head()
    fast = compiled(decoder, head)
    hidden, tokens = roots(head, 2)
    for width in (1, 4):
        for guesses, parents, _ in fast.grow(
            hidden, tokens, **limits(2, nodes=nodes, depth=depth, width=width)
        ):
            assert len(guesses) <= (nodes if depth else 0)
            depths = [0] * len(guesses)
            for node, parent in enumerate(parents):
                assert parent < node
                depths[node] = 1 if parent < 0 else depths[parent] + 1
            assert max(depths, default=0) <= depth
            assert width > 1 or len(set(parents)) == len(parents)
    fast.close()


def test_what_does_not_fit_is_refused_by_name(decoder: KernelDecoder) -> None:
    head = wide_head()
    with pytest.raises(ModelUnsupported, match="root"):
        KernelHead(decoder, head.matrices, head.ids_D, n_taps=2, eps=EPS)
    with pytest.raises(ModelUnsupported, match="ids"):
        KernelHead(decoder, head.matrices, head.ids_D[:-1], n_taps=3, eps=EPS)
    fast = compiled(decoder, head)
    hidden, tokens = roots(head, 1)
    with pytest.raises(ContractError, match="token"):
        fast.grow(hidden, np.array([120], np.int32), **limits(1))
    with pytest.raises(ContractError, match="array"):
        fast.rows(hidden[:, :-1], tokens, roots=True)
    fast.close()
