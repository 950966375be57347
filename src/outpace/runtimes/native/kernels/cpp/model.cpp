// Checking and copying a model's description, and sizing a pass's workspace.
#include "model.h"

#include <string.h>

namespace outpace {
namespace {

int32_t check_matrix(const OutpaceMatrix *m, const char *name, int layer, int64_t n, int64_t k) {
  if (!m) return fail("layer %d has no %s", layer, name);
  if (m->n == n && m->k == k) return 0;
  return fail("%s of layer %d is %d by %d; the model's sizes ask for %lld by %lld", name, layer,
              m->n, m->k, (long long)n, (long long)k);
}

int32_t check_layer(const OutpaceModel &m, int i) {
  const OutpaceLayer &l = m.layers[i];
  const int64_t q = (int64_t)m.n_heads * m.head_dim, kv = (int64_t)m.n_kv_heads * m.head_dim;
  if (check_matrix(l.q, "q", i, q, m.hidden) || check_matrix(l.k, "k", i, kv, m.hidden) ||
      check_matrix(l.v, "v", i, kv, m.hidden) || check_matrix(l.o, "o", i, m.hidden, q) ||
      check_matrix(l.gate, "gate", i, m.ffn, m.hidden) ||
      check_matrix(l.up, "up", i, m.ffn, m.hidden) ||
      check_matrix(l.down, "down", i, m.hidden, m.ffn))
    return 1;
  if (!l.norm_attention || !l.norm_ffn) return fail("layer %d lacks a norm", i);
  if (l.rope < -1 || l.rope >= m.n_ropes)
    return fail("layer %d names rope table %d of %d", i, l.rope, m.n_ropes);
  if (l.window < 0) return fail("layer %d has a window of %d", i, l.window);
  return 0;
}

}  // namespace

int32_t check_model(const OutpaceModel &m) {
  if (m.hidden < 1 || m.n_layers < 1 || m.ffn < 1 || m.vocab < 1 || m.n_heads < 1)
    return fail("hidden %d, layers %d, ffn %d, vocabulary %d and heads %d must be positive",
                m.hidden, m.n_layers, m.ffn, m.vocab, m.n_heads);
  if (m.n_kv_heads < 1 || m.n_heads % m.n_kv_heads)
    return fail("%d heads cannot share %d K/V heads", m.n_heads, m.n_kv_heads);
  if (m.head_dim < 1 || m.head_dim > 1024) return fail("head size %d; 1 to 1024 fit", m.head_dim);
  if (m.rope_dim < 0 || m.rope_dim > m.head_dim || m.rope_dim % 2)
    return fail("%d of %d dimensions rotated; an even number fits", m.rope_dim, m.head_dim);
  if (m.page_size < 16 || m.page_size % 16)
    return fail("page size %d; multiples of 16 fit", m.page_size);
  if (m.kv_type < 0 || m.kv_type > 2) return fail("K/V type %d; 0, 1 or 2 fit", m.kv_type);
  if (m.activation < 0 || m.activation > 1) return fail("activation %d; 0 or 1", m.activation);
  if (m.max_positions < 1) return fail("%d positions", m.max_positions);
  if (m.fine_rows < 0 || m.fine_rows > 31) return fail("fine rows %d; 0 to 31", m.fine_rows);
  if (!(m.eps >= 0.0f)) return fail("norm epsilon %g", (double)m.eps);
  if (check_matrix(m.embedding, "embedding", -1, m.vocab, m.hidden) ||
      check_matrix(m.head, "head", -1, m.vocab, m.hidden))
    return 1;
  if (!m.norm_final) return fail("the model lacks its final norm");
  for (int i = 0; i < m.n_layers; i++)
    if (check_layer(m, i)) return 1;
  return 0;
}

Shape shape_of(const OutpaceModel &m) {
  Shape s;
  s.hidden = round_up(m.hidden, STEP);
  s.q_width = m.layers[0].q->n_tiles * LANES;
  s.kv_width = m.layers[0].k->n_tiles * LANES;
  s.head_pad = round_up(m.head_dim, LANES);
  s.group = m.n_heads / m.n_kv_heads;
  s.page_elements = (int64_t)m.n_kv_heads * m.page_size * s.head_pad;
  s.layer_elements = 0;
  return s;
}

const float *Vectors::copy(const float *from, int64_t n) {
  if (!from) return nullptr;
  float *to = (float *)take_memory((size_t)round_up(n, STEP) * sizeof(float));
  if (!to) {
    failed_ = true;
    return nullptr;
  }
  owned_.push_back(to);
  memcpy(to, from, (size_t)n * sizeof(float));
  return to;
}

Workspace::~Workspace() {
  for (Piece &p : pieces_) give_memory(p.memory);
}

template <class T>
bool Workspace::grow(int piece, int64_t count, T **to) {
  Piece &p = pieces_[piece];
  const int64_t bytes = count * (int64_t)sizeof(T);
  if (bytes > p.bytes) {
    give_memory(p.memory);
    p.bytes = 0;
    p.memory = take_memory((size_t)bytes);
    if (!p.memory) return false;
    p.bytes = bytes;
  }
  *to = (T *)p.memory;
  return true;
}

bool Workspace::grow_rows(int piece, int64_t n_rows, int64_t k, Rows *to) {
  to->k = round_up(k, STEP);
  to->n_blocks = to->k / BLOCK;
  const int64_t row_bytes = to->k * 6 + to->n_blocks * (int64_t)sizeof(BlockMeta);
  // Room made for more rows is cut anew for fewer: padding must be zero at either cut.
  const int64_t room = pieces_[piece].bytes / row_bytes;
  const int64_t n = n_rows > room ? n_rows : room;
  uint8_t *base;
  if (!grow(piece, n * row_bytes, &base)) return false;
  to->f = (float *)base;
  to->meta = (BlockMeta *)(base + n * to->k * 4);
  to->q = (int8_t *)(to->meta + n * to->n_blocks);
  to->low = to->q + n * to->k;
  return true;
}

int32_t Workspace::fit(const OutpaceModel &m, const Shape &shape, const OutpacePass &p,
                       const Plan &plan, int n_threads) {
  const int64_t rows = p.n_rows, asked = p.n_asked > 0 ? p.n_asked : 1;
  const int64_t attended = (int64_t)m.n_heads * m.head_dim;
  work.n_phases = round_up((int64_t)m.n_layers * PHASES_PER_LAYER + 8, 32);
  work.scratch_bytes = plan.scratch_bytes;
  const bool own_logits = p.top_ids && !p.logits;
  const bool fits =
      grow(X, rows * shape.hidden, &work.x) && grow(Y, rows * shape.hidden, &work.y) &&
      grow(QKV, rows * (shape.q_width + 2 * (int64_t)shape.kv_width) + 64, &work.qkv) &&
      grow(LOGITS, own_logits ? asked * m.vocab : 1, &work.logits) &&
      grow_rows(NORMED, rows, m.hidden, &work.normed) &&
      grow_rows(ATTENDED, rows, attended, &work.attended) &&
      grow_rows(GATED, rows, m.ffn, &work.gated) &&
      grow_rows(FINAL, asked, m.hidden, &work.final_rows) &&
      grow(PARTIALS, plan.n_partials * (shape.head_pad + 16) + 1, &work.partials) &&
      grow(ARRIVALS, plan.n_tiles, &work.arrivals) &&
      grow(BEST_IDS, asked * n_threads, &work.best_ids) &&
      grow(BEST_LOGITS, asked * n_threads, &work.best_logits) &&
      grow(COUNTERS, work.n_phases * (n_threads + 1), &work.counters) &&
      grow(SCRATCH, plan.scratch_bytes * n_threads, &work.scratch);
  if (!fits) return fail("out of memory for the workspace of %lld rows", (long long)rows);
  return 0;
}

}  // namespace outpace
