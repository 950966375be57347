// Sixteen lanes in one AVX512 register; integer dot products by VNNI.
#pragma once
#include <immintrin.h>
#include <stdint.h>

namespace {

constexpr int MAX_ROWS = 16;  // rows of a register tile: 16 sums, 8 weights, and a few to spare

using vf = __m512;
using vi = __m512i;

inline vf vzero() { return _mm512_setzero_ps(); }
inline vf vset(float x) { return _mm512_set1_ps(x); }
inline vf vload(const float *p) { return _mm512_loadu_ps(p); }
inline void vstore(float *p, vf a) { _mm512_storeu_ps(p, a); }
inline vf vadd(vf a, vf b) { return _mm512_add_ps(a, b); }
inline vf vsub(vf a, vf b) { return _mm512_sub_ps(a, b); }
inline vf vmul(vf a, vf b) { return _mm512_mul_ps(a, b); }
inline vf vdiv(vf a, vf b) { return _mm512_div_ps(a, b); }
inline vf vfma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
inline vf vmax(vf a, vf b) { return _mm512_max_ps(a, b); }
inline vf vmin(vf a, vf b) { return _mm512_min_ps(a, b); }
inline vf vabs(vf a) { return _mm512_abs_ps(a); }
inline vi vround(vf a) { return _mm512_cvtps_epi32(a); }
inline vf vcvt(vi a) { return _mm512_cvtepi32_ps(a); }
// A row's 15-bit number as 128 · high + low, low in [-64, 63], and back.
inline vi split_high(vi q) {
  return _mm512_srai_epi32(_mm512_add_epi32(q, _mm512_set1_epi32(64)), 7);
}
inline vi join(vi high, vi low) { return _mm512_add_epi32(_mm512_slli_epi32(high, 7), low); }
inline vi split_low(vi q, vi high) { return _mm512_sub_epi32(q, _mm512_slli_epi32(high, 7)); }
inline vf vpow2(vi n) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(n, _mm512_set1_epi32(127)), 23));
}
inline vf vload_half(const uint16_t *p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
inline vf vload_bf16(const uint16_t *p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
inline void vstore_half(uint16_t *p, vf a) {
  _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
inline void vstore_bf16(uint16_t *p, vf a) {  // of numbers; a NaN may become another
  const __m512i u = _mm512_castps_si512(a);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  const __m512i r = _mm512_add_epi32(_mm512_add_epi32(u, odd), _mm512_set1_epi32(0x7fff));
  _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16)));
}
// The one order in which lanes are added, on every instruction set: i with i+8, i+4, i+2, i+1.
inline float vsum(vf a) {
  const __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  const __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  const __m128 d = _mm_add_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_add_ss(d, _mm_shuffle_ps(d, d, 1)));
}
inline float vhighest(vf a) { return _mm512_reduce_max_ps(a); }
inline int32_t isum(vi a) { return _mm512_reduce_add_epi32(a); }
inline void vstore_i8(int8_t *p, vi a) { _mm_storeu_si128((__m128i *)p, _mm512_cvtsepi32_epi8(a)); }
inline void prefetch(const void *p) { __builtin_prefetch(p, 0, 3); }
inline void prefetch_far(const void *p) { __builtin_prefetch(p, 0, 2); }  // second-level cache
inline void prefetch_write(const void *p) { __builtin_prefetch(p, 1, 3); }

// Eight groups of four inputs by sixteen outputs, unsigned, in registers.
struct Weights {
  __m512i g[8];
};
template <int BITS>
inline Weights load_weights(const uint8_t *p) {
  Weights w;
  if constexpr (BITS == 8) {
    for (int i = 0; i < 8; i++) w.g[i] = _mm512_loadu_si512(p + 64 * i);
  } else {
    const __m512i low = _mm512_set1_epi8(15);
    for (int i = 0; i < 4; i++) {
      const __m512i both = _mm512_loadu_si512(p + 64 * i);
      w.g[i] = _mm512_and_si512(both, low);
      w.g[i + 4] = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
    }
  }
  return w;
}
// start + the sum over groups [FIRST, LAST) of weights times the row's bytes, in integers.
template <int FIRST, int LAST>
inline vi dot(const Weights &w, const int8_t *x, int32_t start) {
  vi a = _mm512_set1_epi32(start);
#pragma GCC unroll 8
  for (int i = FIRST; i < LAST; i++) {
    int32_t four;
    __builtin_memcpy(&four, x + 4 * i, 4);
    a = _mm512_dpbusd_epi32(a, w.g[i], _mm512_set1_epi32(four));
  }
  return a;
}

}  // namespace
