// One step of a drafting head, for several rows at once, run by every thread of the pool together.
#pragma once
#include "head.h"
#include "rows.h"
// After the names that rows.h brings in.
#include "products.h"

namespace {

using outpace::HeadJob;
using outpace::HeadRows;

struct Advance {
  const HeadJob &job;
  const OutpaceHead &h;
  outpace::HeadWork &w;
  HeadRows &rows;
  Place at;

  Advance(const HeadJob &j, int thread)
      : job(j), h(*j.head), w(*j.work), rows(*j.rows), at{j.job, thread, 0, 0.0} {}

  float *u_of(int64_t row) const { return w.u + row * h.hidden; }

  void norm(const float *from, float *to) const {
    rms_norm(from, w.ones, h.hidden, h.hidden, h.eps, to);
  }

  // [norm of each stream, embedding], rounded; u starts as the last stream, or as the state above.
  void enter(int64_t row) const {
    const outpace::Rows &to = rows.roots ? w.root : w.step;
    float *f = to.f + row * to.k;
    const float *from = rows.from[row];
    if (rows.roots) {
      for (int t = 0; t < h.n_taps; t++) norm(from + (int64_t)t * h.hidden, f + (int64_t)t * h.hidden);
      f += (int64_t)(h.n_taps - 1) * h.hidden;
      __builtin_memcpy(u_of(row), f, sizeof(float) * h.hidden);
    } else {
      __builtin_memcpy(u_of(row), from, sizeof(float) * h.hidden);
      norm(from, f);
    }
    float *e = w.embedded + row * w.embed_stride;
    outpace::matrix_row(*h.embed, rows.tokens[row], e);
    __builtin_memcpy(f + h.hidden, e, sizeof(float) * h.embed_width);
    quantize_row(to, (int)row, false);
  }

  void add_product(const OutpaceMatrix &matrix, const outpace::Rows &x) {
    share_product(at, matrix, x, rows.n_rows, false, w.u, h.hidden,
                  [&](int64_t row, int64_t o, vf sum) {
                    float *to = u_of(row) + o;
                    vstore(to, vadd(vload(to), sum));
                  });
  }

  void normalise() {
    share(at, rows.n_rows, 1, [&](int64_t row) {
      norm(u_of(row), w.normed.f + row * w.normed.k);
      quantize_row(w.normed, (int)row, false);
    });
  }

  void gated(const OutpaceMatrix &gate, const OutpaceMatrix &up, const OutpaceMatrix &down,
             const outpace::Rows &to) {
    normalise();
    share(at, gate.n_tiles / 2, 2, [&](int64_t unit) {
      alignas(64) float out[4][16 * LANES];
      for (int64_t row = 0; row < rows.n_rows; row += 16) {
        const int n = (int)(rows.n_rows - row < 16 ? rows.n_rows - row : 16);
        for (int half = 0; half < 2; half++) {
          product(gate, 2 * unit + half, w.normed, row, n, false, out[half]);
          product(up, 2 * unit + half, w.normed, row, n, false, out[2 + half]);
        }
        for (int r = 0; r < n; r++) {
          const vf a = vmul(vgate(vload(out[0] + r * LANES), 0), vload(out[2] + r * LANES));
          const vf b = vmul(vgate(vload(out[1] + r * LANES), 0), vload(out[3] + r * LANES));
          const int64_t i = row + r;
          quantize_block(a, b, false, to.q + i * to.k + 32 * unit, to.low + i * to.k + 32 * unit,
                         to.meta + i * to.n_blocks + unit);
        }
      }
    });
    add_product(down, to);
  }

  // The likeliest tokens of a row and their probabilities, highest first, low id first in a tie.
  void choose(int64_t row) const {
    const float *x = w.logits + row * w.logits_stride;
    const int k = rows.n_children;
    float top[outpace::HEAD_CHILDREN];
    int32_t *ids = rows.ids[row], held = 0;
    for (int base = 0; base < h.draft; base += LANES) {
      if (held == k && !(vhighest(vload(x + base)) > top[k - 1])) continue;
      for (int id = base; id < base + LANES && id < h.draft; id++) {
        const float value = x[id];
        if (value != value || (held == k && !(value > top[k - 1]))) continue;
        int place = held < k ? held++ : k - 1;
        for (; place > 0 && value > top[place - 1]; place--)
          top[place] = top[place - 1], ids[place] = ids[place - 1];
        top[place] = value;
        ids[place] = id;
      }
    }
    for (int i = held; i < k; i++) ids[i] = -1, rows.law[row][i] = 0.0f;
    if (!held) return;
    const vf sharp = vset(rows.sharpness[row]), best = vset(top[0]);
    vf sum = vzero();
    int id = 0;
    for (; id + LANES <= h.draft; id += LANES)
      sum = vadd(sum, vexp(vmul(vsub(vload(x + id), best), sharp)));
    float total = vsum(sum);
    alignas(64) float lanes[LANES];
    vstore(lanes, vexp(vmul(vsub(vload(x + id), best), sharp)));
    for (int i = 0; id + i < h.draft; i++) total += lanes[i];
    for (int i = 0; i < held; i++) {
      vstore(lanes, vexp(vmul(vset(top[i] - top[0]), sharp)));
      rows.law[row][i] = lanes[0] / total;
    }
  }

  void run() {
    std::atomic<int32_t> *mine = job.job.work->counters + at.thread * job.job.work->n_phases;
    for (int64_t i = 0; i < job.job.work->n_phases; i++)
      mine[i].store(0, std::memory_order_relaxed);
    for (int64_t i = 0; !at.thread && i < job.job.work->n_phases; i++)
      job.job.work->counters[job.job.n_threads * job.job.work->n_phases + i].store(
          0, std::memory_order_relaxed);
    at.phase = 0;
    job.job.pool->barrier();
    share(at, rows.n_rows, 1, [&](int64_t row) { enter(row); });
    add_product(rows.roots ? *h.root : *h.step, rows.roots ? w.root : w.step);
    if (rows.roots) gated(*h.root_gate, *h.root_up, *h.root_down, w.root_gated);
    gated(*h.gate, *h.up, *h.down, w.gated);
    normalise();
    share_product(at, *h.out, w.normed, rows.n_rows, false, w.logits, w.logits_stride,
                  [&](int64_t row, int64_t o, vf sum) {
                    vstore(w.logits + row * w.logits_stride + o, sum);
                  });
    if (rows.n_children) share(at, rows.n_rows, 1, [&](int64_t row) { choose(row); });
  }
};

inline void run_head(const HeadJob &job, int thread) {
  Advance advance(job, thread);
  if (!job.forest) return advance.run();
  for (;;) {
    if (!thread) job.forest->plan(*job.rows);
    job.job.pool->barrier();
    if (!job.rows->n_rows) return;
    advance.run();
    // A thread that came late may still be reading what the next plan changes.
    job.job.pool->barrier();
    if (!thread) job.forest->harvest(*job.rows, job.work->u);
  }
}

}  // namespace
