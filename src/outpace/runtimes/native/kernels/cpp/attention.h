// Paged attention over fixed blocks of positions, for chains and trees alike.
//
// A row's keys are visited in the order of their positions, KEY_BLOCK positions at a time, wherever
// their slots lie: block maximum, weights exp(score - maximum), their sum by lanes, the weighted
// values by one FMA chain; then blocks are merged in order. Nothing else enters the result.
#pragma once
#include "rows.h"
#include "scores.h"

namespace {

using outpace::Job;
using outpace::KEY_BLOCK;
using outpace::RowInfo;
using outpace::Tile;

constexpr float NEVER = -3.0e38f;

struct Query {
  const float *q;
  int lo, hi, linear;   // positions [lo, hi); below linear, slot and position agree
  const int32_t *path;  // slots of positions from linear on
  float high, total;    // running maximum and sum
  float block_high, block_total;
};

// A tile's view of memory, in one thread's scratch.
struct Bench {
  Query *queries;
  const float **q;
  float *scores;  // [queries][KEY_BLOCK]
  float *tree;    // [queries][tree_slots]: scores of the pass's own rows
  float *block;   // [queries][head_pad]
  float *sum;     // [queries][head_pad]
  int n, tree_base, tree_slots;
  int all_straight;  // below this, some query finds keys at the slots of their positions
  bool tree_known;
  bool from_far;  // few rows: keys and values are met for the first time
};

inline Bench bench_of(const Job &job, const Tile &tile, int window, uint8_t *scratch) {
  const outpace::Plan &plan = *job.plan;
  const int group = job.shape.group, dim = job.model->head_dim, pad = job.shape.head_pad;
  const int most = plan.max_tile_rows * group;
  Bench b;
  b.n = (tile.last - tile.first) * group;
  b.queries = (Query *)scratch;
  b.q = (const float **)(b.queries + most);
  b.scores = (float *)(((uintptr_t)(b.q + most) + 63) / 64 * 64);
  b.block = b.scores + most * KEY_BLOCK;
  b.sum = b.block + most * pad;
  b.tree = b.sum + most * pad;
  const int cached = job.pass->n_cached[tile.sequence];
  const int ends = cached + tile.last - job.pass->starts[tile.sequence];
  b.tree_base = cached / 16 * 16;
  b.tree_slots = (ends - b.tree_base + 15) / 16 * 16;
  b.tree_known = false;
  b.all_straight = 0;
  b.from_far = job.pass->n_rows <= 64;
  const int64_t stride = job.shape.q_width + 2 * (int64_t)job.shape.kv_width;
  for (int i = 0; i < b.n; i++) {
    const int row = tile.first + i / group;
    const RowInfo &r = plan.rows[row];
    Query &q = b.queries[i];
    q.q = b.q[i] = job.work->qkv + row * stride + (int64_t)(tile.head * group + i % group) * dim;
    q.hi = r.position + 1;
    q.lo = window > 0 && q.hi > window ? q.hi - window : 0;
    q.linear = r.linear;
    q.path = plan.paths + r.path;
    q.high = NEVER;
    q.total = 0.0f;
    const int straight = q.hi < q.linear ? q.hi : q.linear;
    b.all_straight = straight > b.all_straight ? straight : b.all_straight;
  }
  return b;
}

template <int KV>
void score_slots(const Cache &c, const Bench &b, int head, int dim, int first, int last, float *out,
                 int64_t stride, const uint8_t *ahead) {
  int64_t groups[KEY_BLOCK / 16];
  for (int slot = first; slot < last; slot += KEY_BLOCK) {
    int n = 0;
    for (int s = slot; s < last && s < slot + KEY_BLOCK; s += 16)
      groups[n++] = c.key_group(head, s);
    score_queries<KV>(c.k, groups, n, b.q, b.n, dim, out + (slot - first), stride, ahead);
  }
}

// Scores of one query in one block -> weights, in place, and the block's maximum and sum.
inline void weights_of(Query &q, float *s, int lo, int hi) {
  const int from = lo / 16 * 16, to = (hi + 15) / 16 * 16;
  for (int i = from; i < lo; i++) s[i] = NEVER;
  for (int i = hi; i < to; i++) s[i] = NEVER;
  vf top = vset(NEVER);
  for (int i = from; i < to; i += 16) top = vmax(top, vload(s + i));
  q.block_high = vhighest(top);
  const vf high = vset(q.block_high);
  for (int i = from; i < to; i += 16) vstore(s + i, vexp(vsub(vload(s + i), high)));
  for (int i = from; i < lo; i++) s[i] = 0.0f;
  for (int i = hi; i < to; i++) s[i] = 0.0f;
  vf sum = vzero();
  for (int i = from; i < to; i += 16) sum = vadd(sum, vload(s + i));
  q.block_total = vsum(sum);
}

inline int least(int a, int b) { return a < b ? a : b; }
inline int most_of(int a, int b) { return a > b ? a : b; }

// Weighted values of up to four queries: alone where they differ, together where they agree.
template <int KV>
void weigh_queries(const Cache &c, const Bench &b, int head, int p0, int first, int n) {
  int together_lo = 0, together_hi = p0 + KEY_BLOCK;
  for (int i = first; i < first + n; i++) {
    const Query &q = b.queries[i];
    together_lo = most_of(together_lo, most_of(q.lo, p0));
    together_hi = least(together_hi, least(q.hi, q.linear));
  }
  const bool together = n > 1 && together_lo < together_hi;
  const float *e[4];
  float *out[4];
  for (int i = 0; i < n; i++) {
    e[i] = b.scores + (int64_t)(first + i) * KEY_BLOCK;
    out[i] = b.block + (int64_t)(first + i) * c.head_pad;
    const Query &q = b.queries[first + i];
    const int lo = most_of(q.lo, p0);
    const int hi = together ? together_lo : least(least(q.hi, q.linear), p0 + KEY_BLOCK);
    const float *at = e[i] + (lo - p0);
    if (lo < hi) weigh_slots<KV>(c, head, lo, hi, &at, 1, out + i);
  }
  if (together) {
    const float *at[4];
    for (int i = 0; i < n; i++) at[i] = e[i] + (together_lo - p0);
    const bool next = b.from_far && !first && together_hi + KEY_BLOCK <= b.all_straight;
    weigh_slots<KV>(c, head, together_lo, together_hi, at, n, out, next ? KEY_BLOCK : 0);
  }
  for (int i = 0; i < n; i++) {
    const Query &q = b.queries[first + i];
    const int hi = least(q.hi, p0 + KEY_BLOCK), straight = least(hi, q.linear);
    const float *at = e[i] + (together_hi - p0);
    if (together && together_hi < straight)
      weigh_slots<KV>(c, head, together_hi, straight, &at, 1, out + i);
    for (int p = most_of(most_of(q.lo, q.linear), p0); p < hi; p++) {
      const int slot = q.path[p - q.linear];
      const float *one = e[i] + (p - p0);
      weigh_slots<KV>(c, head, slot, slot + 1, &one, 1, out + i);
    }
  }
}

// One block of positions for every query of a tile: block_high, block_total and b.block.
template <int KV>
void attend_block(const Job &job, const Cache &c, const Tile &tile, Bench &b, int p0) {
  const int dim = job.model->head_dim;
  int first = p0 + KEY_BLOCK, straight = p0;
  bool branches = false;
  for (int i = 0; i < b.n; i++) {
    const Query &q = b.queries[i];
    first = least(first, most_of(q.lo, p0));
    straight = most_of(straight, least(least(q.hi, q.linear), p0 + KEY_BLOCK));
    branches |= q.linear < q.hi && q.hi > p0;
  }
  first = first / 16 * 16;
  if (first < straight)
    score_slots<KV>(c, b, tile.head, dim, first, straight, b.scores + (first - p0), KEY_BLOCK,
                    b.from_far ? c.v : nullptr);
  if (branches && !b.tree_known) {
    score_slots<KV>(c, b, tile.head, dim, b.tree_base, b.tree_base + b.tree_slots, b.tree,
                    b.tree_slots, nullptr);
    b.tree_known = true;
  }
  for (int i = 0; i < b.n; i++) {
    Query &q = b.queries[i];
    const int lo = most_of(q.lo, p0), hi = least(q.hi, p0 + KEY_BLOCK);
    q.block_total = 0.0f;
    if (lo >= hi) continue;
    float *s = b.scores + (int64_t)i * KEY_BLOCK;
    for (int p = most_of(lo, q.linear); p < hi; p++)
      s[p - p0] = b.tree[(int64_t)i * b.tree_slots + q.path[p - q.linear] - b.tree_base];
    weights_of(q, s, lo - p0, hi - p0);
    float *o = b.block + (int64_t)i * c.head_pad;
    for (int d = 0; d < c.head_pad; d += 16) vstore(o + d, vzero());
  }
  for (int i = 0; i < b.n; i += 4) weigh_queries<KV>(c, b, tile.head, p0, i, least(4, b.n - i));
}

// The running sum of a query takes in one more block.
inline void merge(float *high, float *total, float *sum, float block_high, float block_total,
                  const float *block, int pad) {
  if (block_total == 0.0f) return;
  if (*total == 0.0f) {
    *high = block_high;
    *total = block_total;
    for (int d = 0; d < pad; d += 16) vstore(sum + d, vload(block + d));
    return;
  }
  const float top = *high > block_high ? *high : block_high;
  const vf old_share = vexp(vset(*high - top)), new_share = vexp(vset(block_high - top));
  alignas(64) float pair[32];
  vstore(pair, old_share);
  vstore(pair + 16, new_share);
  *total = __builtin_fmaf(*total, pair[0], block_total * pair[16]);
  *high = top;
  for (int d = 0; d < pad; d += 16)
    vstore(sum + d, vfma(vload(sum + d), old_share, vmul(vload(block + d), new_share)));
}

inline void finish(const Job &job, const Tile &tile, int i, float total, const float *sum) {
  const int group = job.shape.group, dim = job.model->head_dim;
  const outpace::Rows &out = job.work->attended;
  const int64_t row = tile.first + i / group;
  float *to = out.f + row * out.k + (int64_t)(tile.head * group + i % group) * dim;
  const vf t = vset(total);
  int d = 0;
  for (; d + 16 <= dim; d += 16) vstore(to + d, vdiv(vload(sum + d), t));
  for (; d < dim; d++) to[d] = sum[d] / total;
}

template <int KV>
void attend_tile(const Job &job, int layer, const Tile &tile, uint8_t *scratch) {
  const Cache c = outpace::cache_of(job, layer, tile.sequence);
  Bench b = bench_of(job, tile, job.model->layers[layer].window, scratch);
  for (int block = 0; block < tile.n_blocks; block++) {
    attend_block<KV>(job, c, tile, b, block * KEY_BLOCK);
    for (int i = 0; i < b.n; i++) {
      Query &q = b.queries[i];
      merge(&q.high, &q.total, b.sum + (int64_t)i * c.head_pad, q.block_high, q.block_total,
            b.block + (int64_t)i * c.head_pad, c.head_pad);
    }
  }
  for (int i = 0; i < b.n; i++)
    finish(job, tile, i, b.queries[i].total, b.sum + (int64_t)i * c.head_pad);
}

// One key block of a tile; whoever brings a tile's last block merges them all, in order.
template <int KV>
void attend_part(const Job &job, int layer, int tile_index, int block, uint8_t *scratch) {
  const Tile &tile = job.plan->tiles[tile_index];
  const Cache c = outpace::cache_of(job, layer, tile.sequence);
  Bench b = bench_of(job, tile, job.model->layers[layer].window, scratch);
  const int64_t stride = c.head_pad + 16;
  float *parts = job.work->partials + tile.partial * stride;
  attend_block<KV>(job, c, tile, b, block * KEY_BLOCK);
  for (int i = 0; i < b.n; i++) {
    float *part = parts + ((int64_t)i * tile.n_blocks + block) * stride;
    part[0] = b.queries[i].block_high;
    part[1] = b.queries[i].block_total;
    if (part[1] == 0.0f) continue;
    for (int d = 0; d < c.head_pad; d += 16)
      vstore(part + 16 + d, vload(b.block + (int64_t)i * c.head_pad + d));
  }
  std::atomic<int32_t> &arrivals = job.work->arrivals[tile_index];
  if (arrivals.fetch_add(1, std::memory_order_acq_rel) + 1 < tile.n_blocks) return;
  arrivals.store(0, std::memory_order_relaxed);
  for (int i = 0; i < b.n; i++) {
    float high = NEVER, total = 0.0f;
    float *sum = b.sum + (int64_t)i * c.head_pad;
    for (int k = 0; k < tile.n_blocks; k++) {
      const float *part = parts + ((int64_t)i * tile.n_blocks + k) * stride;
      merge(&high, &total, sum, part[0], part[1], part + 16, c.head_pad);
    }
    finish(job, tile, i, total, sum);
  }
}

}  // namespace
