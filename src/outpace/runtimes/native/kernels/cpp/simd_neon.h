// Sixteen lanes in four NEON registers; integer dot products by the dotprod extension.
#pragma once
#include <arm_neon.h>
#include <stdint.h>

namespace {

constexpr int MAX_ROWS = 4;

struct vf {
  float32x4_t q[4];
};
struct vi {
  int32x4_t q[4];
};

template <class F>
inline vf each(F f) {
  return {{f(0), f(1), f(2), f(3)}};
}
inline vf vset(float x) {
  return each([&](int) { return vdupq_n_f32(x); });
}
inline vf vzero() { return vset(0.0f); }
inline vf vload(const float *p) {
  return each([&](int i) { return vld1q_f32(p + 4 * i); });
}
inline void vstore(float *p, const vf &a) {
  for (int i = 0; i < 4; i++) vst1q_f32(p + 4 * i, a.q[i]);
}
inline vf vadd(const vf &a, const vf &b) {
  return each([&](int i) { return vaddq_f32(a.q[i], b.q[i]); });
}
inline vf vsub(const vf &a, const vf &b) {
  return each([&](int i) { return vsubq_f32(a.q[i], b.q[i]); });
}
inline vf vmul(const vf &a, const vf &b) {
  return each([&](int i) { return vmulq_f32(a.q[i], b.q[i]); });
}
inline vf vdiv(const vf &a, const vf &b) {
  return each([&](int i) { return vdivq_f32(a.q[i], b.q[i]); });
}
inline vf vfma(const vf &a, const vf &b, const vf &c) {
  return each([&](int i) { return vfmaq_f32(c.q[i], a.q[i], b.q[i]); });
}
inline vf vmax(const vf &a, const vf &b) {
  return each([&](int i) { return vmaxq_f32(a.q[i], b.q[i]); });
}
inline vf vmin(const vf &a, const vf &b) {
  return each([&](int i) { return vminq_f32(a.q[i], b.q[i]); });
}
inline vf vabs(const vf &a) {
  return each([&](int i) { return vabsq_f32(a.q[i]); });
}
inline vi vround(const vf &a) {
  return {{vcvtnq_s32_f32(a.q[0]), vcvtnq_s32_f32(a.q[1]), vcvtnq_s32_f32(a.q[2]),
           vcvtnq_s32_f32(a.q[3])}};
}
inline vf vcvt(const vi &a) {
  return each([&](int i) { return vcvtq_f32_s32(a.q[i]); });
}
template <class F>
inline vi each_int(F f) {
  return {{f(0), f(1), f(2), f(3)}};
}
// A row's 15-bit number as 128 · high + low, low in [-64, 63], and back.
inline vi split_high(const vi &q) {
  return each_int([&](int i) { return vshrq_n_s32(vaddq_s32(q.q[i], vdupq_n_s32(64)), 7); });
}
inline vi join(const vi &high, const vi &low) {
  return each_int([&](int i) { return vaddq_s32(vshlq_n_s32(high.q[i], 7), low.q[i]); });
}
inline vi split_low(const vi &q, const vi &high) {
  return each_int([&](int i) { return vsubq_s32(q.q[i], vshlq_n_s32(high.q[i], 7)); });
}
inline vf vpow2(const vi &n) {
  return each([&](int i) {
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n.q[i], vdupq_n_s32(127)), 23));
  });
}
inline vf vload_half(const uint16_t *p) {
  return each([&](int i) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i))); });
}
inline vf vload_bf16(const uint16_t *p) {
  return each([&](int i) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16)); });
}
inline void vstore_half(uint16_t *p, const vf &a) {
  for (int i = 0; i < 4; i++) vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(a.q[i])));
}
inline void vstore_bf16(uint16_t *p, const vf &a) {
  for (int i = 0; i < 4; i++) {
    const uint32x4_t u = vreinterpretq_u32_f32(a.q[i]);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
    const uint32x4_t r = vaddq_u32(vaddq_u32(u, odd), vdupq_n_u32(0x7fff));
    vst1_u16(p + 4 * i, vmovn_u32(vshrq_n_u32(r, 16)));
  }
}
inline float vsum(const vf &a) {
  const float32x4_t low = vaddq_f32(a.q[0], a.q[2]), high = vaddq_f32(a.q[1], a.q[3]);
  const float32x4_t c = vaddq_f32(low, high);
  const float32x2_t d = vadd_f32(vget_low_f32(c), vget_high_f32(c));
  return vget_lane_f32(d, 0) + vget_lane_f32(d, 1);
}
inline float vhighest(const vf &a) {
  return vmaxvq_f32(vmaxq_f32(vmaxq_f32(a.q[0], a.q[1]), vmaxq_f32(a.q[2], a.q[3])));
}
inline int32_t isum(const vi &a) {
  return vaddvq_s32(vaddq_s32(vaddq_s32(a.q[0], a.q[1]), vaddq_s32(a.q[2], a.q[3])));
}
inline void vstore_i8(int8_t *p, const vi &a) {
  const int16x8_t low = vcombine_s16(vqmovn_s32(a.q[0]), vqmovn_s32(a.q[1]));
  const int16x8_t high = vcombine_s16(vqmovn_s32(a.q[2]), vqmovn_s32(a.q[3]));
  vst1q_s8(p, vcombine_s8(vqmovn_s16(low), vqmovn_s16(high)));
}
inline void prefetch(const void *p) { __builtin_prefetch(p, 0, 3); }
inline void prefetch_far(const void *p) { __builtin_prefetch(p, 0, 2); }
inline void prefetch_write(const void *p) { __builtin_prefetch(p, 1, 3); }

struct Weights {
  const uint8_t *p;
  int bits;
};
template <int BITS>
inline Weights load_weights(const uint8_t *p) {
  return {p, BITS};
}
inline uint8x16_t weights_16(const Weights &w, int group, int quarter) {
  const int at = 64 * (w.bits == 8 ? group : group % 4) + 16 * quarter;
  const uint8x16_t raw = vld1q_u8(w.p + at);
  if (w.bits == 8) return raw;
  return group < 4 ? vandq_u8(raw, vdupq_n_u8(15)) : vshrq_n_u8(raw, 4);
}
// The instruction multiplies signed by signed. Weights of 8 bits are turned to w - 128, and the
// row's bytes times 128 are added again, which `plus` accumulates exactly.
template <int FIRST, int LAST>
inline vi dot(const Weights &w, const int8_t *x, int32_t start) {
  int32x4_t sum[4] = {vdupq_n_s32(start), vdupq_n_s32(start), vdupq_n_s32(start),
                      vdupq_n_s32(start)};
  int32x4_t plus = vdupq_n_s32(0);
  for (int i = FIRST; i < LAST; i++) {
    int32_t four;
    __builtin_memcpy(&four, x + 4 * i, 4);
    const int8x16_t row = vreinterpretq_s8_s32(vdupq_n_s32(four));
    for (int k = 0; k < 4; k++) {
      uint8x16_t weights = weights_16(w, i, k);
      if (w.bits == 8) weights = veorq_u8(weights, vdupq_n_u8(128));
      sum[k] = vdotq_s32(sum[k], vreinterpretq_s8_u8(weights), row);
    }
    if (w.bits == 8) plus = vdotq_s32(plus, vdupq_n_s8(1), row);
  }
  const int32x4_t back = vshlq_n_s32(plus, 7);
  vi all;
  for (int k = 0; k < 4; k++) all.q[k] = w.bits == 8 ? vaddq_s32(sum[k], back) : sum[k];
  return all;
}

}  // namespace
