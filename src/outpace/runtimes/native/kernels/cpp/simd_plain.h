// Sixteen lanes in plain C++: the definition the other instruction sets are checked against.
#pragma once
#include <math.h>
#include <stdint.h>

#include "halves.h"

namespace {

constexpr int MAX_ROWS = 4;

struct vf {
  float x[16];
};
struct vi {
  int32_t x[16];
};

template <class F>
inline vf each(F f) {
  vf r;
  for (int i = 0; i < 16; i++) r.x[i] = f(i);
  return r;
}
inline vf vset(float x) {
  return each([&](int) { return x; });
}
inline vf vzero() { return vset(0.0f); }
inline vf vload(const float *p) {
  return each([&](int i) { return p[i]; });
}
inline void vstore(float *p, const vf &a) {
  for (int i = 0; i < 16; i++) p[i] = a.x[i];
}
inline vf vadd(const vf &a, const vf &b) {
  return each([&](int i) { return a.x[i] + b.x[i]; });
}
inline vf vsub(const vf &a, const vf &b) {
  return each([&](int i) { return a.x[i] - b.x[i]; });
}
inline vf vmul(const vf &a, const vf &b) {
  return each([&](int i) { return a.x[i] * b.x[i]; });
}
inline vf vdiv(const vf &a, const vf &b) {
  return each([&](int i) { return a.x[i] / b.x[i]; });
}
inline vf vfma(const vf &a, const vf &b, const vf &c) {
  return each([&](int i) { return fmaf(a.x[i], b.x[i], c.x[i]); });
}
inline vf vmax(const vf &a, const vf &b) {
  return each([&](int i) { return a.x[i] > b.x[i] ? a.x[i] : b.x[i]; });
}
inline vf vmin(const vf &a, const vf &b) {
  return each([&](int i) { return a.x[i] < b.x[i] ? a.x[i] : b.x[i]; });
}
inline vf vabs(const vf &a) {
  return each([&](int i) { return fabsf(a.x[i]); });
}
inline vi vround(const vf &a) {
  vi r;
  // What x86 answers for what does not fit; rows of a sound model never come here.
  for (int i = 0; i < 16; i++) {
    const bool fits = a.x[i] >= -2147483648.0f && a.x[i] < 2147483648.0f;
    r.x[i] = fits ? (int32_t)lrintf(a.x[i]) : INT32_MIN;
  }
  return r;
}
inline vf vcvt(const vi &a) {
  return each([&](int i) { return (float)a.x[i]; });
}
template <class F>
inline vi each_int(F f) {
  vi r;
  for (int i = 0; i < 16; i++) r.x[i] = f(i);
  return r;
}
// A row's 15-bit number as 128 · high + low, low in [-64, 63], and back.
inline vi split_high(const vi &q) {
  return each_int([&](int i) { return (q.x[i] + 64) >> 7; });
}
inline vi join(const vi &high, const vi &low) {
  return each_int([&](int i) { return high.x[i] * 128 + low.x[i]; });
}
inline vi split_low(const vi &q, const vi &high) {
  return each_int([&](int i) { return q.x[i] - high.x[i] * 128; });
}
inline vf vpow2(const vi &n) {
  return each([&](int i) { return outpace::bits_float((uint32_t)(n.x[i] + 127) << 23); });
}
inline vf vload_half(const uint16_t *p) {
  return each([&](int i) { return outpace::half_float(p[i]); });
}
inline vf vload_bf16(const uint16_t *p) {
  return each([&](int i) { return outpace::bf16_float(p[i]); });
}
inline void vstore_half(uint16_t *p, const vf &a) {
  for (int i = 0; i < 16; i++) p[i] = outpace::float_half(a.x[i]);
}
inline void vstore_bf16(uint16_t *p, const vf &a) {
  for (int i = 0; i < 16; i++) p[i] = outpace::float_bf16(a.x[i]);
}
inline float vsum(vf a) {
  for (int half = 8; half; half /= 2)
    for (int i = 0; i < half; i++) a.x[i] = a.x[i] + a.x[i + half];
  return a.x[0];
}
inline float vhighest(const vf &a) {
  float m = a.x[0];
  for (int i = 1; i < 16; i++) m = a.x[i] > m ? a.x[i] : m;
  return m;
}
inline int32_t isum(const vi &a) {
  int32_t s = 0;
  for (int i = 0; i < 16; i++) s += a.x[i];
  return s;
}
inline void vstore_i8(int8_t *p, const vi &a) {
  for (int i = 0; i < 16; i++) p[i] = (int8_t)(a.x[i] < -128 ? -128 : a.x[i] > 127 ? 127 : a.x[i]);
}
inline void prefetch(const void *) {}
inline void prefetch_far(const void *) {}
inline void prefetch_write(const void *) {}

struct Weights {
  uint8_t g[8][64];
};
template <int BITS>
inline Weights load_weights(const uint8_t *p) {
  Weights w;
  for (int i = 0; i < 8; i++)
    for (int j = 0; j < 64; j++) {
      if (BITS == 8)
        w.g[i][j] = p[64 * i + j];
      else
        w.g[i][j] = i < 4 ? p[64 * i + j] & 15 : p[64 * (i - 4) + j] >> 4;
    }
  return w;
}
template <int FIRST, int LAST>
inline vi dot(const Weights &w, const int8_t *x, int32_t start) {
  vi a;
  for (int o = 0; o < 16; o++) {
    int32_t s = start;
    for (int i = FIRST; i < LAST; i++)
      for (int j = 0; j < 4; j++) s += (int32_t)w.g[i][4 * o + j] * (int32_t)x[4 * i + j];
    a.x[o] = s;
  }
  return a;
}

}  // namespace
