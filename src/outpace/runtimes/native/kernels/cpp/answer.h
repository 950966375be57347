// What a pass hands back: logits of the asked rows, or the best of them only.
#pragma once
#include "pass.h"

namespace {

using outpace::NOBODY;

// Is (value, id) ahead of (than, than_id)? Higher first, lower id first in a tie, never NaN.
inline bool ahead(float value, int32_t id, float than, int32_t than_id) {
  return value > than || (value == than && id < than_id);
}

struct Answer {
  const Pass &pass;
  const outpace::Job &job;
  const OutpaceModel &m;
  const OutpacePass &p;
  outpace::Work &w;

  explicit Answer(const Pass &of) : pass(of), job(of.job), m(of.m), p(of.p), w(of.w) {}

  float *logits_of(int64_t i) const {
    float *all = p.logits ? p.logits : w.logits;
    return all + i * m.vocab;
  }

  // Sixteen logits of an asked row.
  void take(int thread, int64_t i, int64_t o, vf sum) const {
    if (m.logit_scale != 1.0f) sum = vmul(sum, vset(m.logit_scale));
    if (m.logit_softcap > 0.0f) sum = vsoftcap(sum, m.logit_softcap);
    const int n = m.vocab - o < LANES ? (int)(m.vocab - o) : LANES;
    if (n <= 0) return;
    alignas(64) float out[LANES];
    vstore(out, sum);
    if (p.logits || p.top_ids) __builtin_memcpy(logits_of(i) + o, out, sizeof(float) * n);
    if (!p.best_ids) return;
    int32_t &id = w.best_ids[(int64_t)thread * p.n_asked + i];
    float &best = w.best_logits[(int64_t)thread * p.n_asked + i];
    if (n == LANES && vhighest(sum) < best) return;
    for (int k = 0; k < n; k++)
      if (ahead(out[k], (int32_t)(o + k), best, id)) best = out[k], id = (int32_t)(o + k);
  }

  void choose_best() const {
    for (int64_t i = 0; i < p.n_asked; i++) {
      float best = -__builtin_inff();
      int32_t id = NOBODY;
      for (int64_t t = 0; t < job.n_threads; t++) {
        const float value = w.best_logits[t * p.n_asked + i];
        const int32_t its = w.best_ids[t * p.n_asked + i];
        if (ahead(value, its, best, id)) best = value, id = its;
      }
      p.best_ids[i] = id == NOBODY ? -1 : id;
      if (p.best_logits) p.best_logits[i] = best;
    }
  }

  // The top_k logits in order: kept sorted while passing over the row; few ever enter.
  void choose_top(int64_t i) const {
    const int k = p.top_k;
    int32_t *ids = p.top_ids + i * k;
    float *top = p.top_logits + i * k;
    for (int j = 0; j < k; j++) ids[j] = -1, top[j] = -__builtin_inff();
    const float *row = logits_of(i);
    int held = 0;
    for (int id = 0; id < m.vocab; id++) {
      const float value = row[id];
      if (held == k && !(value > top[k - 1])) continue;
      if (value != value) continue;
      int at = held < k ? held++ : k - 1;
      for (; at > 0 && value > top[at - 1]; at--) top[at] = top[at - 1], ids[at] = ids[at - 1];
      top[at] = value;
      ids[at] = id;
    }
  }
};

inline void Pass::run() {
  if (p.profile) at.since = now_s();
  embed();
  at.mark(EMBED);
  for (int i = 0; i < m.n_layers; i++) layer(i);
  share(at, p.n_rows, 1, [&](int64_t row) {
    join(m.layers[m.n_layers - 1].norm_after_ffn, row);
    tap(m.n_layers, row);
  });
  if (!p.n_asked) return;
  share(at, p.n_asked, 1,
        [&](int64_t i) { prepare(w.final_rows, i, p.asked[i], m.norm_final, OUTPACE_FINE_HEAD); });
  const Answer answer(*this);
  const bool all_fine = fine(OUTPACE_FINE_HEAD);
  share_product(at, *m.head, w.final_rows, p.n_asked, all_fine, nullptr, 0,
                [&](int64_t i, int64_t o, vf sum) { answer.take(at.thread, i, o, sum); });
  if (p.top_ids) share(at, p.n_asked, 1, [&](int64_t i) { answer.choose_top(i); });
  if (p.best_ids && at.thread == 0) answer.choose_best();
  at.mark(HEAD);
}

// One product by itself, for checks: rows x.f are rounded as in a pass.
inline void product_alone(const Rows &x, const OutpaceMatrix &m, int32_t n_rows, bool fine,
                          float *out) {
  for (int row = 0; row < n_rows; row++) quantize_row(x, row, fine);
  for (int64_t tile = 0; tile < m.n_tiles; tile++)
    product_rows(m, tile, x, 0, n_rows, fine, nullptr, 0, [&](int64_t row, vf sum) {
      alignas(64) float lanes[LANES];
      vstore(lanes, sum);
      for (int k = 0; k < LANES && tile * LANES + k < m.n; k++)
        out[row * m.n + tile * LANES + k] = lanes[k];
    });
}

inline void run_pass(const outpace::Job &job, int thread) { Pass(job, thread).run(); }

}  // namespace
