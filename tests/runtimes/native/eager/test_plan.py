"""The plan reads, for every row, its own text in order of position: no key more, none less."""

import numpy as np
import pytest
import torch

from outpace.runtimes.native.eager.plan import KEY_BLOCK, Shape, physical_slots, plan
from runtimes.native.models import Part, one_pass

CPU = torch.device("cpu")


@pytest.mark.parametrize("window", [None, 1, 100, 300])
@pytest.mark.parametrize("max_entries", [1, 3, 1000])
@pytest.mark.parametrize("page_size", [1, 7, 64])
def test_a_row_reads_its_path_in_blocks_of_positions(
    window: int | None, max_entries: int, page_size: int
) -> None:
    rng = np.random.default_rng(page_size)
    tree = (-1, 0, 1, 1, 3, -1, 5, 2)
    n_pages = -(-700 // page_size)
    pages = rng.permutation(4 * n_pages).astype(np.int32).reshape(4, -1)
    sizes = ((0, 300, None), (510, 8, tree), (250, 8, tree), (256, 1, None))
    parts = [
        Part(tokens=np.zeros(n, np.int32), n_cached=cached, pages=pages[s], parents=parents)
        for s, (cached, n, parents) in enumerate(sizes)
    ]
    rows = one_pass(parts)
    shape = Shape(page_size=page_size, heights=(2, 4, 32), max_entries=max_entries)
    seen: dict[int, list[tuple[int, int]]] = {r: [] for r in range(len(rows.tokens_R))}
    for group in plan(rows, window=window, shape=shape, device=CPU):
        assert len(group.tile_E) <= max_entries
        height = group.rows_UT.shape[1]
        slots_EB = group.slots_N.view(-1, KEY_BLOCK)
        for step_rows, places in group.steps:
            some = list(seen) if step_rows is None else step_rows.tolist()
            assert len(set(some)) == len(some)
            for r, place in zip(some, places.tolist(), strict=True):
                e, t = divmod(place, height)
                assert int(group.rows_UT[group.tile_E[e], t]) == r
                visible = (~group.hidden_ETB[e, t]).nonzero()[:, 0].tolist()
                seen[r] += [(b, int(slots_EB[e, b])) for b in visible]
    own_R = physical_slots(rows, page_size)
    for r, got in seen.items():
        position = int(rows.positions_R[r])
        first = 0 if window is None else max(0, position - window + 1)
        expected = [(p % KEY_BLOCK, slot) for p, slot in path_slots(rows, r, own_R, page_size)]
        assert got == expected[first:]


def path_slots(
    rows: object, r: int, own_R: np.ndarray[tuple[int], np.dtype[np.int64]], page_size: int
) -> list[tuple[int, int]]:
    """(position, physical slot) of everything before and at a row, walked one by one."""
    from outpace.runtimes.native.passes import Pass

    assert isinstance(rows, Pass)
    s = int(np.searchsorted(rows.starts_S1, r, side="right")) - 1
    cached = range(int(rows.n_cached_S[s]))
    slots = [int(rows.tables_SP[s, i // page_size]) * page_size + i % page_size for i in cached]
    path = []
    while r >= 0:
        path.append(int(own_R[r]))
        r = int(rows.parents_R[r])
    return list(enumerate(slots + path[::-1]))
