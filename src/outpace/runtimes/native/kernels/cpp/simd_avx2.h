// Sixteen lanes in two AVX2 registers; integer dot products by AVX-VNNI where OUTPACE_VNNI says so.
#pragma once
#include <immintrin.h>
#include <stdint.h>

namespace {

constexpr int MAX_ROWS = 4;

struct vf {
  __m256 a, b;
};
struct vi {
  __m256i a, b;
};

inline vf vset(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline vf vzero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline vf vload(const float *p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void vstore(float *p, vf x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
inline vf vadd(vf x, vf y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
inline vf vsub(vf x, vf y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
inline vf vmul(vf x, vf y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
inline vf vdiv(vf x, vf y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
inline vf vfma(vf x, vf y, vf z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
inline vf vmax(vf x, vf y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
inline vf vmin(vf x, vf y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
inline vf vabs(vf x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
inline vi vround(vf x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
inline vf vcvt(vi x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
// A row's 15-bit number as 128 · high + low, low in [-64, 63], and back.
inline __m256i high_8(__m256i q) {
  return _mm256_srai_epi32(_mm256_add_epi32(q, _mm256_set1_epi32(64)), 7);
}
inline vi split_high(vi q) { return {high_8(q.a), high_8(q.b)}; }
inline vi join(vi high, vi low) {
  return {_mm256_add_epi32(_mm256_slli_epi32(high.a, 7), low.a),
          _mm256_add_epi32(_mm256_slli_epi32(high.b, 7), low.b)};
}
inline vi split_low(vi q, vi high) {
  return {_mm256_sub_epi32(q.a, _mm256_slli_epi32(high.a, 7)),
          _mm256_sub_epi32(q.b, _mm256_slli_epi32(high.b, 7))};
}
inline __m256 pow2_8(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
inline vf vpow2(vi n) { return {pow2_8(n.a), pow2_8(n.b)}; }
inline vf vload_half(const uint16_t *p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
          _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8)))};
}
inline __m256 bf16_8(const uint16_t *p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
inline vf vload_bf16(const uint16_t *p) { return {bf16_8(p), bf16_8(p + 8)}; }
inline void vstore_half(uint16_t *p, vf x) {
  _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128((__m128i *)(p + 8), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}
inline __m256i rounded_bf16(__m256 x) {
  const __m256i u = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  const __m256i r = _mm256_add_epi32(_mm256_add_epi32(u, odd), _mm256_set1_epi32(0x7fff));
  return _mm256_srli_epi32(r, 16);
}
inline void vstore_bf16(uint16_t *p, vf x) {  // of numbers; a NaN may become another
  const __m256i both = _mm256_packus_epi32(rounded_bf16(x.a), rounded_bf16(x.b));
  _mm256_storeu_si256((__m256i *)p, _mm256_permute4x64_epi64(both, 0xd8));
}
inline float vsum(vf x) {
  const __m256 b = _mm256_add_ps(x.a, x.b);
  const __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  const __m128 d = _mm_add_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_add_ss(d, _mm_shuffle_ps(d, d, 1)));
}
inline float vhighest(vf x) {
  const __m256 b = _mm256_max_ps(x.a, x.b);
  const __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  const __m128 d = _mm_max_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_max_ss(d, _mm_shuffle_ps(d, d, 1)));
}
inline int32_t isum(vi x) {
  const __m256i b = _mm256_add_epi32(x.a, x.b);
  __m128i c = _mm_add_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1));
  c = _mm_add_epi32(c, _mm_shuffle_epi32(c, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(c, _mm_shuffle_epi32(c, 0xb1)));
}
inline void vstore_i8(int8_t *p, vi x) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
  const __m128i low = _mm256_castsi256_si128(words), high = _mm256_extracti128_si256(words, 1);
  _mm_storeu_si128((__m128i *)p, _mm_packs_epi16(low, high));
}
inline void prefetch(const void *p) { __builtin_prefetch(p, 0, 3); }
inline void prefetch_far(const void *p) { __builtin_prefetch(p, 0, 2); }
inline void prefetch_write(const void *p) { __builtin_prefetch(p, 1, 3); }

// Sixteen registers hold no block of weights: they stay where they are, near.
struct Weights {
  const uint8_t *p;
  int bits;
};
template <int BITS>
inline Weights load_weights(const uint8_t *p) {
  return {p, BITS};
}
inline __m256i weights_32(const Weights &w, int group, int half) {
  const int at = 64 * (w.bits == 8 ? group : group % 4) + 32 * half;
  const __m256i raw = _mm256_loadu_si256((const __m256i *)(w.p + at));
  if (w.bits == 8) return raw;
  const __m256i low = _mm256_set1_epi8(15);
  return group < 4 ? _mm256_and_si256(raw, low) : _mm256_and_si256(_mm256_srli_epi16(raw, 4), low);
}
inline __m256i add_dot(__m256i sum, __m256i weights, __m256i x, bool eight) {
#if defined(OUTPACE_VNNI)
  (void)eight;
  return _mm256_dpbusd_avx_epi32(sum, weights, x);
#else
  const __m256i ones = _mm256_set1_epi16(1);
  if (!eight) {  // 15 · 127 · 2 fits 16 bits
    const __m256i pairs = _mm256_maddubs_epi16(weights, x);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
  }
  // 255 · 127 · 2 does not: even and odd bytes apart, as 16-bit numbers.
  const __m256i even_w = _mm256_and_si256(weights, _mm256_set1_epi16(255));
  const __m256i odd_w = _mm256_srli_epi16(weights, 8);
  const __m256i even_x = _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8);
  const __m256i odd_x = _mm256_srai_epi16(x, 8);
  sum = _mm256_add_epi32(sum, _mm256_madd_epi16(even_w, even_x));
  return _mm256_add_epi32(sum, _mm256_madd_epi16(odd_w, odd_x));
#endif
}
template <int FIRST, int LAST>
inline vi dot(const Weights &w, const int8_t *x, int32_t start) {
  vi sum{_mm256_set1_epi32(start), _mm256_set1_epi32(start)};
#pragma GCC unroll 8
  for (int i = FIRST; i < LAST; i++) {
    int32_t four;
    __builtin_memcpy(&four, x + 4 * i, 4);
    const __m256i row = _mm256_set1_epi32(four);
    sum.a = add_dot(sum.a, weights_32(w, i, 0), row, w.bits == 8);
    sum.b = add_dot(sum.b, weights_32(w, i, 1), row, w.bits == 8);
  }
  return sum;
}

}  // namespace
