// The plan of a pass: checks what the caller said, then lays rows, paths and attention tiles out.
#include <algorithm>
#include <new>
#include <vector>

#include "engine.h"

namespace outpace {

struct Planner {
  std::vector<RowInfo> rows;
  std::vector<int32_t> paths, item_tile, item_block;
  std::vector<int64_t> written;
  std::vector<Tile> tiles;
};

Planner *planner_new() { return new Planner; }
void planner_free(Planner *planner) { delete planner; }

namespace {

constexpr int QUERIES = 16;  // about as many as share a key block's trip through the first cache

int32_t check_sequence(const OutpaceModel &m, const OutpacePass &p, int s) {
  const int first = p.starts[s], last = p.starts[s + 1], n = last - first;
  if (n < 0 || first < 0 || last > p.n_rows)
    return fail("sequence %d has rows %d to %d of %d", s, first, last, p.n_rows);
  if (p.n_cached[s] < 0) return fail("sequence %d has %d cached tokens", s, p.n_cached[s]);
  const int64_t pages = ((int64_t)p.n_cached[s] + n + m.page_size - 1) / m.page_size;
  if (pages > p.max_pages)
    return fail("sequence %d needs %lld pages for %d cached tokens and %d rows; its table has %d",
                s, (long long)pages, p.n_cached[s], n, p.max_pages);
  for (int64_t i = 0; i < pages; i++) {
    const int32_t page = p.page_tables[(int64_t)s * p.max_pages + i];
    if (page < 0 || page >= p.n_pages)
      return fail("sequence %d names page %d at place %lld; the pool has %lld pages", s, page,
                  (long long)i, (long long)p.n_pages);
  }
  return 0;
}

int32_t check_row(const OutpaceModel &m, const OutpacePass &p, int s, int row) {
  const int first = p.starts[s], parent = p.parents[row];
  if (p.tokens[row] < 0 || p.tokens[row] >= m.vocab)
    return fail("row %d has token %d; the vocabulary has %d", row, p.tokens[row], m.vocab);
  if (parent != -1 && (parent < first || parent >= row))
    return fail("row %d has parent %d; it must be -1 or an earlier row of its sequence (from %d)",
                row, parent, first);
  const int64_t want = parent < 0 ? p.n_cached[s] : (int64_t)p.positions[parent] + 1;
  if (p.positions[row] != want)
    return fail("row %d has position %d; it follows position %lld", row, p.positions[row],
                (long long)want - 1);
  if (p.positions[row] >= m.max_positions)
    return fail("row %d has position %d; the model was given %d positions", row, p.positions[row],
                m.max_positions);
  return 0;
}

// Pages written by two sequences of one pass would make results depend on the order of threads.
int32_t check_written(Planner &pl, const OutpaceModel &m, const OutpacePass &p) {
  pl.written.clear();
  for (int s = 0; s < p.n_sequences; s++) {
    const int n = p.starts[s + 1] - p.starts[s];
    if (!n) continue;
    const int32_t *table = p.page_tables + (int64_t)s * p.max_pages;
    for (int i = p.n_cached[s] / m.page_size; i <= (p.n_cached[s] + n - 1) / m.page_size; i++)
      pl.written.push_back(table[i]);
  }
  std::sort(pl.written.begin(), pl.written.end());
  const auto twice = std::adjacent_find(pl.written.begin(), pl.written.end());
  if (twice != pl.written.end())
    return fail("page %lld is written at two places in one pass", (long long)*twice);
  return 0;
}

int32_t check(Planner &pl, const OutpaceModel &m, const OutpacePass &p) {
  if (p.n_rows <= 0) return fail("a pass needs at least one row; it has %d", p.n_rows);
  if (p.n_sequences <= 0 || p.starts[0] != 0 || p.starts[p.n_sequences] != p.n_rows)
    return fail("the sequences must cover rows 0 to %d", p.n_rows);
  for (int s = 0; s < p.n_sequences; s++) {
    if (check_sequence(m, p, s)) return 1;
    for (int row = p.starts[s]; row < p.starts[s + 1]; row++)
      if (check_row(m, p, s, row)) return 1;
  }
  for (int i = 0; i < p.n_asked; i++)
    if (p.asked[i] < 0 || p.asked[i] >= p.n_rows)
      return fail("asked row %d; the pass has %d", p.asked[i], p.n_rows);
  if (p.top_ids && (p.top_k < 1 || p.top_k > m.vocab))
    return fail("top %d of %d logits asked", p.top_k, m.vocab);
  for (int i = 0; i < p.n_taps; i++)
    if (p.taps[i] < 0 || p.taps[i] > m.n_layers)
      return fail("hidden states of layer %d asked; the model has %d", p.taps[i], m.n_layers);
  return check_written(pl, m, p);
}

// Returns whether any row of the sequence has a slot that is not its position.
bool lay_rows(Planner &pl, const OutpacePass &p, int s) {
  const int first = p.starts[s], cached = p.n_cached[s];
  bool branches = false;
  for (int row = first; row < p.starts[s + 1]; row++) {
    RowInfo &r = pl.rows[row];
    const int parent = p.parents[row];
    r = RowInfo{s, p.positions[row], cached + row - first, 0, (int64_t)pl.paths.size()};
    const int before = parent < 0 ? cached : pl.rows[parent].linear;
    if (before == r.position && r.slot == r.position) {
      r.linear = r.position + 1;
      continue;
    }
    branches = true;
    r.linear = before;
    if (parent >= 0) {
      const RowInfo &up = pl.rows[parent];
      for (int i = 0; i <= up.position - up.linear; i++)
        pl.paths.push_back(pl.paths[(size_t)(up.path + i)]);
    }
    pl.paths.push_back(r.slot);
  }
  return branches;
}

void lay_tiles(Planner &pl, const OutpaceModel &m, const Shape &shape, const OutpacePass &p,
               Plan *plan) {
  const int most = std::max(1, QUERIES / shape.group);
  plan->max_tile_rows = most;
  pl.tiles.clear();
  for (int s = 0; s < p.n_sequences; s++) {
    const int n = p.starts[s + 1] - p.starts[s];
    if (!n) continue;
    const int n_cuts = (n + most - 1) / most;  // tiles of equal size share better
    for (int cut = 0; cut < n_cuts; cut++)
      for (int head = 0; head < m.n_kv_heads; head++) {
        Tile t{s, head, p.starts[s] + n * cut / n_cuts, p.starts[s] + n * (cut + 1) / n_cuts,
               0, -1};
        int top = 0;
        for (int r = t.first; r < t.last; r++) top = std::max(top, p.positions[r] + 1);
        t.n_blocks = (top + KEY_BLOCK - 1) / KEY_BLOCK;
        pl.tiles.push_back(t);
      }
  }
}

void lay_items(Planner &pl, const Shape &shape, int n_threads, Plan *plan) {
  pl.item_tile.clear();
  pl.item_block.clear();
  plan->split = (int)pl.tiles.size() < 4 * n_threads && n_threads > 1;
  plan->n_partials = 0;
  for (size_t i = 0; i < pl.tiles.size(); i++) {
    Tile &t = pl.tiles[i];
    if (plan->split) {
      t.partial = plan->n_partials;
      plan->n_partials += (int64_t)(t.last - t.first) * shape.group * t.n_blocks;
    }
    for (int b = 0; b < (plan->split ? t.n_blocks : 1); b++) {
      pl.item_tile.push_back((int32_t)i);
      pl.item_block.push_back(b);
    }
  }
}

}  // namespace

int32_t plan_pass(Planner *planner, const OutpaceModel &m, const Shape &shape, const OutpacePass &p,
                  int32_t n_threads, Plan *plan) try {
  Planner &pl = *planner;
  if (check(pl, m, p)) return 1;
  pl.rows.resize((size_t)p.n_rows);
  pl.paths.clear();
  int64_t tree = 0;
  for (int s = 0; s < p.n_sequences; s++)
    if (lay_rows(pl, p, s)) tree = std::max<int64_t>(tree, p.starts[s + 1] - p.starts[s] + 32);
  lay_tiles(pl, m, shape, p, plan);
  lay_items(pl, shape, n_threads, plan);
  const int64_t queries = (int64_t)plan->max_tile_rows * shape.group;
  plan->scratch_bytes = 256 + queries * (64 + 4 * (KEY_BLOCK + 2 * shape.head_pad + tree));
  plan->scratch_bytes = (plan->scratch_bytes + 63) / 64 * 64;
  plan->rows = pl.rows.data();
  plan->paths = pl.paths.data();
  plan->tiles = pl.tiles.data();
  plan->n_tiles = (int32_t)pl.tiles.size();
  plan->item_tile = pl.item_tile.data();
  plan->item_block = pl.item_block.data();
  plan->n_items = (int32_t)pl.item_tile.size();
  return 0;
} catch (const std::bad_alloc &) {
  return fail("out of memory for the plan of %d rows", p.n_rows);
}

}  // namespace outpace
