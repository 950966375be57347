// One pass of the decoder, run by every thread of the pool together; `share` splits each phase.
#pragma once
#include "attention.h"
#include "products.h"

namespace {

struct Pass {
  const Job &job;
  const OutpaceModel &m;
  const OutpacePass &p;
  outpace::Work &w;
  Place at;
  int64_t stride;  // of a row of w.qkv

  Pass(const Job &j, int thread)
      : job(j),
        m(*j.model),
        p(*j.pass),
        w(*j.work),
        at{j, thread, 0, 0.0},
        stride(j.shape.q_width + 2 * (int64_t)j.shape.kv_width) {}

  float *x_of(int64_t row) const { return w.x + row * job.shape.hidden; }
  float *y_of(int64_t row) const { return w.y + row * job.shape.hidden; }

  void tap(int layer, int64_t row) const {
    for (int i = 0; i < p.n_taps; i++)
      if (p.taps[i] == layer)
        __builtin_memcpy(p.hidden + ((int64_t)i * p.n_rows + row) * m.hidden, x_of(row),
                         sizeof(float) * m.hidden);
  }

  // The block's output, still in y when it has a norm of its own, joins the residual stream.
  void join(const float *norm, int64_t row) const {
    if (!norm) return;
    rms_norm(y_of(row), norm, m.hidden, job.shape.hidden, m.eps, y_of(row));
    add_to(x_of(row), y_of(row), job.shape.hidden);
  }

  bool fine(int kind) const { return m.fine_rows & kind; }

  void prepare(const Rows &to, int64_t to_row, int64_t row, const float *norm, int kind) const {
    rms_norm(x_of(row), norm, m.hidden, job.shape.hidden, m.eps, to.f + to_row * to.k);
    quantize_row(to, (int)to_row, fine(kind));
  }

  void embed() {
    share(at, p.n_rows, 1, [&](int64_t row) {
      outpace::matrix_row(*m.embedding, p.tokens[row], x_of(row));
      for (int i = 0; i < job.shape.hidden; i += 16)
        vstore(x_of(row) + i, vmul(vload(x_of(row) + i), vset(m.embedding_scale)));
    });
  }

  void project_part(const OutpaceMatrix &matrix, const float *bias, int64_t tile, int64_t first,
                    int64_t last, int64_t column) const {
    const int64_t o = tile * LANES;
    float *to = w.qkv + column + o;
    const bool all_fine = fine(OUTPACE_FINE_QKV);
    product_rows(matrix, tile, w.normed, first, last, all_fine, to, stride,
                 [&](int64_t row, vf sum) {
                   if (bias) sum = vadd(sum, vload(bias + o));
                   vstore(to + row * stride, sum);
                 });
  }
  void project(const OutpaceLayer &l) {
    if (job.n_threads > 1) fetch_rows(w.normed, p.n_rows, l.q->format, fine(OUTPACE_FINE_QKV));
    const int64_t nq = l.q->n_tiles, nk = l.k->n_tiles, all = nq + nk + l.v->n_tiles;
    share(at, row_blocks(p.n_rows) * all, grain_of(*l.q), [&](int64_t item) {
      const int64_t first = item / all * ROW_BLOCK, tile = item % all;
      const int64_t last = first + ROW_BLOCK < p.n_rows ? first + ROW_BLOCK : p.n_rows;
      const int64_t qw = job.shape.q_width, kw = job.shape.kv_width;
      if (tile < nq)
        project_part(*l.q, l.bias_q, tile, first, last, 0);
      else if (tile < nq + nk)
        project_part(*l.k, l.bias_k, tile - nq, first, last, qw);
      else
        project_part(*l.v, l.bias_v, tile - nq - nk, first, last, qw + kw);
    });
  }

  // Norm, rotate and scale one head; `head` holds head_dim values in a buffer padded with zeros.
  void turn(float *head, const float *norm, int rope, int position) const {
    if (norm) rms_norm(head, norm, m.head_dim, job.shape.head_pad, m.eps, head);
    if (rope < 0) return;
    const int64_t half = m.rope_dim / 2;
    rope_head(head, m.rope_cos[rope] + position * half, m.rope_sin[rope] + position * half,
              m.rope_dim, m.rope_interleaved);
  }
  template <int KV>
  void store_head(const outpace::Cache &c, int head, int slot, const float *k,
                  const float *v) const {
    alignas(64) uint8_t packed[1024 * 4];
    const int64_t key = c.key_group(head, slot) + slot % 16, value = c.value(head, slot);
    for (int d = 0; d < c.head_pad; d += 16) {
      store_kv<KV>(packed, d, vload(k + d));
      store_kv<KV>(c.v, value + d, vload(v + d));
    }
    for (int d = 0; d < m.head_dim; d++) {
      if constexpr (KV == 0)
        ((float *)c.k)[key + 16 * d] = ((float *)packed)[d];
      else
        ((uint16_t *)c.k)[key + 16 * d] = ((uint16_t *)packed)[d];
    }
  }
  void take(float *to, const float *from) const {
    __builtin_memcpy(to, from, sizeof(float) * m.head_dim);
    for (int d = m.head_dim; d < job.shape.head_pad; d++) to[d] = 0.0f;
  }
  void place_query(const OutpaceLayer &l, int64_t row, int head) const {
    alignas(64) float buffer[1024];
    float *q = w.qkv + row * stride + (int64_t)head * m.head_dim;
    take(buffer, q);
    turn(buffer, l.norm_q, l.rope, job.plan->rows[row].position);
    for (int d = 0; d < job.shape.head_pad; d += 16)
      vstore(buffer + d, vmul(vload(buffer + d), vset(m.attention_scale)));
    __builtin_memcpy(q, buffer, sizeof(float) * m.head_dim);
  }
  void place_key(int layer, int64_t row, int head) const {
    const OutpaceLayer &l = m.layers[layer];
    const RowInfo &r = job.plan->rows[row];
    alignas(64) float key[1024], value[1024];
    const float *k = w.qkv + row * stride + job.shape.q_width + (int64_t)head * m.head_dim;
    take(key, k);
    take(value, k + job.shape.kv_width);
    turn(key, l.norm_k, l.rope, r.position);
    const outpace::Cache c = outpace::cache_of(job, layer, r.sequence);
    if (m.kv_type == 0) store_head<0>(c, head, r.slot, key, value);
    if (m.kv_type == 1) store_head<1>(c, head, r.slot, key, value);
    if (m.kv_type == 2) store_head<2>(c, head, r.slot, key, value);
  }
  // Queries, keys and values of sixteen rows at a time, head by head: keys of neighbouring slots
  // share cache lines, and two cores writing one line would wait for each other at every store.
  void place(int layer) {
    const int64_t groups = (p.n_rows + 15) / 16;
    share(at, (m.n_kv_heads + m.n_heads) * groups, 1, [&](int64_t item) {
      const int head = (int)(item / groups);
      const int64_t first = item % groups * 16;
      const int64_t last = first + 16 < p.n_rows ? first + 16 : p.n_rows;
      const int64_t column = head < m.n_kv_heads ? job.shape.q_width + (int64_t)head * m.head_dim
                                                 : (int64_t)(head - m.n_kv_heads) * m.head_dim;
      for (int64_t row = first; row < last; row++)
        for (int64_t i = 0; i < m.head_dim; i += 16) {
          float *from = w.qkv + row * stride + column + i;
          head < m.n_kv_heads ? prefetch(from) : prefetch_write(from);
          if (head < m.n_kv_heads) prefetch(from + job.shape.kv_width);
        }
      for (int64_t row = first; row < last; row++)
        if (head < m.n_kv_heads)
          place_key(layer, row, head);
        else
          place_query(m.layers[layer], row, head - m.n_kv_heads);
    });
  }

  // This thread's part of a matrix, on its way while there is little else to read.
  void fetch_matrix(const OutpaceMatrix &matrix) const {
    const int64_t first = (int64_t)matrix.n_tiles * at.thread / job.n_threads;
    const int64_t last = (int64_t)matrix.n_tiles * (at.thread + 1) / job.n_threads;
    constexpr int64_t most = 384 << 10;  // of a second-level cache of 1 MB
    int64_t bytes = (last - first) * (int64_t)matrix.tile_bytes;
    if (bytes > most) bytes = most;
    const uint8_t *from = matrix.data + first * matrix.tile_bytes;
    for (int64_t i = 0; i < bytes; i += 64) prefetch_far(from + i);
  }

  void attend(int layer) {
    const outpace::Plan &plan = *job.plan;
    bool fetched = p.n_rows > 64;
    share(at, plan.n_items, 1, [&](int64_t item) {
      if (!fetched) fetch_matrix(*m.layers[layer].o);
      fetched = true;
      const int tile = plan.item_tile[item], block = plan.item_block[item];
      uint8_t *scratch = at.scratch();
      if (plan.split) {
        if (m.kv_type == 0) attend_part<0>(job, layer, tile, block, scratch);
        if (m.kv_type == 1) attend_part<1>(job, layer, tile, block, scratch);
        if (m.kv_type == 2) attend_part<2>(job, layer, tile, block, scratch);
      } else {
        if (m.kv_type == 0) attend_tile<0>(job, layer, plan.tiles[tile], scratch);
        if (m.kv_type == 1) attend_tile<1>(job, layer, plan.tiles[tile], scratch);
        if (m.kv_type == 2) attend_tile<2>(job, layer, plan.tiles[tile], scratch);
      }
    });
  }

  // matrix · x, plus bias, into the residual stream, or into y when a norm comes between.
  void settle(const OutpaceMatrix &matrix, const Rows &x, int kind, const float *bias,
              bool normed_later) {
    float *target = normed_later ? w.y : w.x;
    const int64_t width = job.shape.hidden;
    share_product(at, matrix, x, p.n_rows, fine(kind), target, width,
                  [&](int64_t row, int64_t o, vf sum) {
                    if (bias) sum = vadd(sum, vload(bias + o));
                    float *to = target + row * width + o;
                    vstore(to, normed_later ? sum : vadd(vload(to), sum));
                  });
  }

  // Thirty-two gates and ups at a time: their product is one block of the next rows.
  void gate(const OutpaceLayer &l) {
    if (job.n_threads > 1) fetch_rows(w.normed, p.n_rows, l.gate->format, fine(OUTPACE_FINE_GATE));
    const bool rows_fine = fine(OUTPACE_FINE_GATE);
    const int64_t units = l.gate->n_tiles / 2;
    share(at, row_blocks(p.n_rows) * units, 1, [&](int64_t item) {
      const int64_t unit = item % units, start = item / units * ROW_BLOCK;
      const int64_t stop = start + ROW_BLOCK < p.n_rows ? start + ROW_BLOCK : p.n_rows;
      alignas(64) float out[4][16 * LANES];
      const int part = even_part(stop - start, 16);
      for (int64_t row = start; row < stop; row += part) {
        const int n = (int)(stop - row < part ? stop - row : part);
        for (int r = 0; r < n; r++) {
          prefetch_write(w.gated.q + (row + r) * w.gated.k + 32 * unit);
          if (fine(OUTPACE_FINE_DOWN))
            prefetch_write(w.gated.low + (row + r) * w.gated.k + 32 * unit);
          prefetch_write(w.gated.meta + (row + r) * w.gated.n_blocks + unit);
        }
        for (int half = 0; half < 2; half++) {
          product(*l.gate, 2 * unit + half, w.normed, row, n, rows_fine, out[half]);
          product(*l.up, 2 * unit + half, w.normed, row, n, rows_fine, out[2 + half]);
        }
        for (int r = 0; r < n; r++) gate_block(row + r, unit, out[0] + r * LANES);
      }
    });
  }
  void gate_block(int64_t row, int64_t unit, const float *out) const {
    constexpr int tile = 16 * LANES;
    const vf a = vmul(vgate(vload(out), m.activation), vload(out + 2 * tile));
    const vf b = vmul(vgate(vload(out + tile), m.activation), vload(out + 3 * tile));
    const Rows &to = w.gated;
    vstore(to.f + row * to.k + 32 * unit, a);
    vstore(to.f + row * to.k + 32 * unit + 16, b);
    quantize_block(a, b, fine(OUTPACE_FINE_DOWN), to.q + row * to.k + 32 * unit,
                   to.low + row * to.k + 32 * unit, to.meta + row * to.n_blocks + unit);
  }

  void layer(int index) {
    const OutpaceLayer &l = m.layers[index];
    const float *before = index ? m.layers[index - 1].norm_after_ffn : nullptr;
    share(at, p.n_rows, 1, [&](int64_t row) {
      join(before, row);
      tap(index, row);
      prepare(w.normed, row, row, l.norm_attention, OUTPACE_FINE_QKV);
    });
    at.mark(NORM);
    project(l);
    at.mark(QKV);
    place(index);
    at.mark(PLACE);
    attend(index);
    at.mark(ATTEND);
    share(at, p.n_rows, 1,
          [&](int64_t row) { quantize_row(w.attended, (int)row, fine(OUTPACE_FINE_O)); });
    at.mark(ROUND);
    settle(*l.o, w.attended, OUTPACE_FINE_O, l.bias_o, l.norm_after_attention);
    at.mark(OUT);
    share(at, p.n_rows, 1, [&](int64_t row) {
      join(l.norm_after_attention, row);
      prepare(w.normed, row, row, l.norm_ffn, OUTPACE_FINE_GATE);
    });
    at.mark(NORM_FFN);
    gate(l);
    at.mark(GATE);
    settle(*l.down, w.gated, OUTPACE_FINE_DOWN, nullptr, l.norm_after_ffn);
    at.mark(DOWN);
  }

  void run();
};

}  // namespace
