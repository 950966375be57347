// Operations on single rows: exponential, gates, RMS norm, rotary embedding, rounding to bytes.
// Every one is a fixed sequence of single IEEE operations, the same on every instruction set.
#pragma once
#include "engine.h"

namespace {

using outpace::BlockMeta;
using outpace::Rows;

// exp for |x| < 87, after Cephes; x is clamped to that range.
inline vf vexp(vf x) {
  x = vmin(vmax(x, vset(-87.0f)), vset(87.0f));
  const vi n = vround(vmul(x, vset(1.44269504088896341f)));
  const vf nf = vcvt(n);
  vf r = vfma(nf, vset(-0.693359375f), x);
  r = vfma(nf, vset(2.12194440e-4f), r);
  vf p = vset(1.9875691500e-4f);
  p = vfma(p, r, vset(1.3981999507e-3f));
  p = vfma(p, r, vset(8.3334519073e-3f));
  p = vfma(p, r, vset(4.1665795894e-2f));
  p = vfma(p, r, vset(1.6666665459e-1f));
  p = vfma(p, r, vset(5.0000001201e-1f));
  const vf y = vadd(vfma(p, vmul(r, r), r), vset(1.0f));
  return vmul(y, vpow2(n));
}
// x / (1 + exp(-z)): SiLU with z = x, and GELU's tanh form with z = 2·sqrt(2/pi)·(x + 0.044715 x³).
inline vf vgate(vf x, int activation) {
  vf z = x;
  if (activation) {
    const vf cube = vmul(vmul(x, x), x);
    z = vmul(vset(1.5957691216057308f), vfma(vset(0.044715f), cube, x));
  }
  return vdiv(x, vadd(vset(1.0f), vexp(vsub(vzero(), z))));
}
// cap · tanh(x / cap)
inline vf vsoftcap(vf x, float cap) {
  const vf e = vexp(vmul(vset(2.0f), vdiv(x, vset(cap))));
  return vmul(vset(cap), vsub(vset(1.0f), vdiv(vset(2.0f), vadd(e, vset(1.0f)))));
}

// x / sqrt(mean of squares + eps) · weight; n values, then zeros up to `padded`.
inline void rms_norm(const float *x, const float *weight, int n, int padded, float eps,
                     float *out) {
  vf s = vzero();
  for (int i = 0; i < padded; i += 16) {
    const vf a = vload(x + i);
    s = vfma(a, a, s);
  }
  const vf r = vset(1.0f / __builtin_sqrtf(vsum(s) / (float)n + eps));
  for (int i = 0; i < padded; i += 16)
    vstore(out + i, vmul(vmul(vload(x + i), r), vload(weight + i)));
}
inline void add_to(float *x, const float *y, int n) {
  for (int i = 0; i < n; i += 16) vstore(x + i, vadd(vload(x + i), vload(y + i)));
}

// 32 values to whole numbers of at most 127, or 16256 = 127 · 128 where rows are fine:
// scale = max|x| / most, number = round(x · most / max|x|), ties to even.
inline void quantize_block(vf a, vf b, bool fine, int8_t *q, int8_t *q_low, BlockMeta *meta) {
  const float most = fine ? 16256.0f : 127.0f;
  const float top = vhighest(vmax(vabs(a), vabs(b)));
  // Below this most / top overflows; such a block is silence.
  const bool silent = top < 1e-33f;
  const vf inverse = vset(silent ? 0.0f : most / top);
  const vi qa = vround(vmul(a, inverse)), qb = vround(vmul(b, inverse));
  if (fine) {
    const vi ha = split_high(qa), hb = split_high(qb);
    vstore_i8(q, ha);
    vstore_i8(q + 16, hb);
    vstore_i8(q_low, split_low(qa, ha));
    vstore_i8(q_low + 16, split_low(qb, hb));
  } else {
    vstore_i8(q, qa);
    vstore_i8(q + 16, qb);
  }
  const int32_t low = isum(qa), all = low + isum(qb);
  meta->scale = silent ? 0.0f : top / most;
  meta->sum = meta->scale * (float)all;
  meta->offset = -128 * all;
  meta->offset_low = -128 * low;
}
inline void quantize_row(const Rows &rows, int row, bool fine) {
  const float *f = rows.f + row * rows.k;
  for (int64_t b = 0; b < rows.n_blocks; b++)
    quantize_block(vload(f + 32 * b), vload(f + 32 * b + 16), fine, rows.q + row * rows.k + 32 * b,
                   rows.low + row * rows.k + 32 * b, rows.meta + row * rows.n_blocks + b);
}

// Rotate the leading rope_dim values of a head in place.
inline void rope_head(float *x, const float *cos, const float *sin, int rope_dim, int interleaved) {
  const int half = rope_dim / 2, step = interleaved ? 2 : 1, other = interleaved ? 1 : half;
  for (int i = 0; i < half; i++) {
    const float a = x[i * step], b = x[i * step + other];
    x[i * step] = __builtin_fmaf(a, cos[i], -(b * sin[i]));
    x[i * step + other] = __builtin_fmaf(b, cos[i], a * sin[i]);
  }
}

}  // namespace
