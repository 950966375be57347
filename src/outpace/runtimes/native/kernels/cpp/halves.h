// Half and bfloat16 <-> float, in plain integer code: the same bits on every processor.
#pragma once
#include <stdint.h>
#include <string.h>

namespace outpace {

static inline float bits_float(uint32_t u) {
  float f;
  memcpy(&f, &u, 4);
  return f;
}
static inline uint32_t float_bits(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  return u;
}
static inline float half_float(uint16_t h) {
  const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
  const uint32_t exponent = (h >> 10) & 31, mantissa = h & 0x3ff;
  if (exponent == 31) return bits_float(sign | 0x7f800000 | (mantissa << 13));
  if (exponent) return bits_float(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float small = (float)mantissa * 5.9604644775390625e-8f;  // 2^-24, exact
  return sign ? -small : small;
}
// Round to nearest, ties to even.
static inline uint16_t float_half(float f) {
  const uint32_t u = float_bits(f), sign = (u >> 16) & 0x8000, a = u & 0x7fffffff;
  if (a > 0x7f800000) return (uint16_t)(sign | 0x7e00 | ((a >> 13) & 0x3ff));
  if (a >= 0x477ff000) return (uint16_t)(sign | 0x7c00);  // 65520 and above
  if (a < 0x38800000) {                                   // below 2^-14: a multiple of 2^-24
    const float x = bits_float(a) + 0.5f;                 // 0.5 has steps of 2^-24
    return (uint16_t)(sign | (float_bits(x) - 0x3f000000));
  }
  const uint32_t r = a + 0xfff + ((a >> 13) & 1);
  return (uint16_t)(sign | ((r - 0x38000000) >> 13));
}
static inline float bf16_float(uint16_t h) { return bits_float((uint32_t)h << 16); }
static inline uint16_t float_bf16(float f) {
  const uint32_t u = float_bits(f);
  if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)((u >> 16) | 0x40);
  return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

}  // namespace outpace
