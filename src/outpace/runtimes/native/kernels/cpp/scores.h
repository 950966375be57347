// The two inner products of attention: queries times keys, and weights times values.
//
// A score is one FMA chain over the head's dimensions; an output is one FMA chain over positions.
// How many queries or keys are worked on together never enters a chain.
#pragma once
#include "cache.h"

namespace {

using outpace::Cache;

#if defined(OUTPACE_WIDE)
constexpr int TOGETHER = 4;  // queries by groups of keys, or by vectors of values, in registers
#else
constexpr int TOGETHER = 2;
#endif

template <int KV>
inline vf load_kv(const uint8_t *base, int64_t element) {
  if constexpr (KV == 0) return vload((const float *)base + element);
  if constexpr (KV == 1) return vload_half((const uint16_t *)base + element);
  return vload_bf16((const uint16_t *)base + element);
}
template <int KV>
inline void store_kv(uint8_t *base, int64_t element, vf a) {
  if constexpr (KV == 0) return vstore((float *)base + element, a);
  if constexpr (KV == 1) return vstore_half((uint16_t *)base + element, a);
  vstore_bf16((uint16_t *)base + element, a);
}

template <int KV>
constexpr int element_size = KV == 0 ? 4 : 2;

// `ahead`: what will be read next, asked for bit by bit meanwhile; a group's values when its keys
// are scored, the next block's keys when values are weighed. Null: it is near already.
template <int KV, int NQ, int NG>
inline void score_tile(const uint8_t *k, const int64_t *groups, const float *const *q, int dim,
                       float *out, int64_t stride, const uint8_t *ahead) {
  vf sum[NQ][NG];
  for (int i = 0; i < NQ; i++)
    for (int g = 0; g < NG; g++) sum[i][g] = vzero();
  for (int d = 0; d < dim; d++) {
    vf key[NG];
    for (int g = 0; g < NG; g++) key[g] = load_kv<KV>(k, groups[g] + 16 * d);
    if (ahead && (KV == 0 || d % 2 == 0))
      for (int g = 0; g < NG; g++) prefetch(ahead + (groups[g] + 16 * d) * element_size<KV>);
    for (int i = 0; i < NQ; i++) {
      const vf qd = vset(q[i][d]);
      for (int g = 0; g < NG; g++) sum[i][g] = vfma(key[g], qd, sum[i][g]);
    }
  }
  for (int i = 0; i < NQ; i++)
    for (int g = 0; g < NG; g++) vstore(out + i * stride + 16 * g, sum[i][g]);
}

template <int KV, int NQ>
inline void score_groups(const uint8_t *k, const int64_t *groups, int n, const float *const *q,
                         int dim, float *out, int64_t stride, const uint8_t *ahead) {
  for (; n >= TOGETHER; n -= TOGETHER, groups += TOGETHER, out += 16 * TOGETHER)
    score_tile<KV, NQ, TOGETHER>(k, groups, q, dim, out, stride, ahead);
  for (; n >= 2; n -= 2, groups += 2, out += 32)
    score_tile<KV, NQ, 2>(k, groups, q, dim, out, stride, ahead);
  if (n) score_tile<KV, NQ, 1>(k, groups, q, dim, out, stride, ahead);
}

// out[i·stride + 16·g + lane]: queries times the keys of n groups of sixteen slots.
template <int KV>
void score_queries(const uint8_t *k, const int64_t *groups, int n, const float *const *q,
                   int n_queries, int dim, float *out, int64_t stride, const uint8_t *ahead) {
  while (n_queries > 0) {
    int done = 1;
    if (TOGETHER >= 4 && n_queries >= 4)
      score_groups<KV, TOGETHER>(k, groups, n, q, dim, out, stride, ahead), done = 4;
    else if (TOGETHER >= 4 && n_queries == 3)
      score_groups<KV, TOGETHER >= 4 ? 3 : 1>(k, groups, n, q, dim, out, stride, ahead), done = 3;
    else if (n_queries >= 2)
      score_groups<KV, 2>(k, groups, n, q, dim, out, stride, ahead), done = 2;
    else
      score_groups<KV, 1>(k, groups, n, q, dim, out, stride, ahead);
    n_queries -= done;
    q += done;
    out += done * stride;
    ahead = nullptr;  // asked for once
  }
}

template <int KV, int NQ, int ND>
inline void weigh_tile(const uint8_t *v, int64_t element, int64_t head_pad, int n,
                       const float *const *e, float *const *out, int d, const uint8_t *ahead) {
  vf sum[NQ][ND];
  for (int i = 0; i < NQ; i++)
    for (int j = 0; j < ND; j++) sum[i][j] = vload(out[i] + d + 16 * j);
  for (int p = 0; p < n; p++) {
    vf value[ND];
    for (int j = 0; j < ND; j++) value[j] = load_kv<KV>(v, element + p * head_pad + d + 16 * j);
    if (ahead)
      for (int j = 0; j < ND; j += 4 / element_size<KV>)
        prefetch(ahead + (p * head_pad + d + 16 * j) * element_size<KV>);
    for (int i = 0; i < NQ; i++) {
      const vf weight = vset(e[i][p]);
      for (int j = 0; j < ND; j++) sum[i][j] = vfma(value[j], weight, sum[i][j]);
    }
  }
  for (int i = 0; i < NQ; i++)
    for (int j = 0; j < ND; j++) vstore(out[i] + d + 16 * j, sum[i][j]);
}

template <int KV, int NQ>
inline void weigh_run(const uint8_t *v, int64_t element, int64_t head_pad, int n,
                      const float *const *e, float *const *out, const uint8_t *ahead) {
  int d = 0;
  for (; d + 16 * TOGETHER <= head_pad; d += 16 * TOGETHER)
    weigh_tile<KV, NQ, TOGETHER>(v, element, head_pad, n, e, out, d, ahead);
  for (; d < head_pad; d += 16) weigh_tile<KV, NQ, 1>(v, element, head_pad, n, e, out, d, ahead);
}

// out[i][head_pad] += the sum over slots [first, last) of e[i][slot - first] times their values.
template <int KV>
void weigh_slots(const Cache &c, int head, int first, int last, const float *const *e,
                 int n_queries, float *const *out, int ahead_slots = 0) {
  const float *at[4];
  for (int i = 0; i < n_queries; i++) at[i] = e[i];
  for (int slot = first; slot < last;) {
    const int border = (slot / c.page_size + 1) * c.page_size;
    const int end = border < last ? border : last;
    const int64_t element = c.value(head, slot);
    const int n = end - slot;
    const uint8_t *ahead =
        ahead_slots ? c.k + c.value(head, slot + ahead_slots) * element_size<KV> : nullptr;
    if (n_queries == 4 && TOGETHER >= 4)
      weigh_run<KV, TOGETHER>(c.v, element, c.head_pad, n, at, out, ahead);
    else if (n_queries == 3 && TOGETHER >= 4)
      weigh_run<KV, TOGETHER >= 4 ? 3 : 1>(c.v, element, c.head_pad, n, at, out, ahead);
    else if (n_queries == 2)
      weigh_run<KV, 2>(c.v, element, c.head_pad, n, at, out, ahead);
    else
      for (int i = 0; i < n_queries; i++)
        weigh_run<KV, 1>(c.v, element, c.head_pad, n, at + i, out + i, ahead);
    for (int i = 0; i < n_queries; i++) at[i] += n;
    slot = end;
  }
}

}  // namespace
