// Reading GGUF's blocks: see blocks.h; layouts after ggml-common.h of ggml.
#include "blocks.h"

#include "formats.h"
#include "halves.h"

namespace outpace {
namespace {

float half_at(const uint8_t *p) {
  uint16_t h;
  memcpy(&h, p, 2);
  return half_float(h);
}
uint32_t word_at(const uint8_t *p) {
  uint32_t w;
  memcpy(&w, p, 4);
  return w;
}

void nibbles(const uint8_t *p, int32_t *q) {
  for (int j = 0; j < 16; j++) {
    q[j] = p[j] & 15;
    q[j + 16] = p[j] >> 4;
  }
}
void fifth_bits(uint32_t bits, int32_t *q) {
  for (int j = 0; j < 32; j++) q[j] |= (int32_t)((bits >> j) & 1) << 4;
}

// The 6-bit scale and minimum of sub-block j of a K block.
void k_scales(const uint8_t *p, int j, int *scale, int *minimum) {
  if (j < 4) {
    *scale = p[j] & 63;
    *minimum = p[j + 4] & 63;
  } else {
    *scale = (p[j + 4] & 15) | ((p[j - 4] >> 6) << 4);
    *minimum = (p[j + 4] >> 4) | ((p[j] >> 6) << 4);
  }
}

void read_k(const uint8_t *p, int sub, bool five, Block32 *out) {
  int scale, minimum;
  k_scales(p + 4, sub, &scale, &minimum);
  out->scale[0] = out->scale[1] = half_at(p) * (float)scale;
  out->minimum = -(half_at(p + 2) * (float)minimum);
  const uint8_t *high = p + 16, *low = p + (five ? 48 : 16) + sub / 2 * 32;
  for (int j = 0; j < 32; j++) {
    out->q[j] = sub % 2 ? low[j] >> 4 : low[j] & 15;
    if (five) out->q[j] |= ((high[j] >> sub) & 1) << 4;
  }
}

void read_q6(const uint8_t *p, int sub, Block32 *out) {
  const int half = sub / 4, k = sub % 4;
  const uint8_t *low = p + half * 64 + (k % 2) * 32, *high = p + 128 + half * 32;
  const int8_t *scales = (const int8_t *)p + 192 + half * 8 + 2 * k;
  const float d = half_at(p + 208);
  for (int j = 0; j < 32; j++) {
    const int four = k < 2 ? low[j] & 15 : low[j] >> 4;
    out->q[j] = (four | (((high[j] >> (2 * k)) & 3) << 4)) - 32;
  }
  out->scale[0] = d * (float)scales[0];
  out->scale[1] = d * (float)scales[1];
}

struct SourceType {
  int32_t source, weights, bytes, format;
};
constexpr SourceType types[] = {
    {GGML_F32, 1, 4, F32},      {GGML_F16, 1, 2, F16},      {GGML_BF16, 1, 2, BF16},
    {GGML_Q4_0, 32, 18, Q4},    {GGML_Q4_1, 32, 20, Q4},    {GGML_Q5_0, 32, 22, Q8},
    {GGML_Q5_1, 32, 24, Q8M},   {GGML_Q8_0, 32, 34, Q8},    {GGML_Q4_K, 256, 144, Q4K},
    {GGML_Q5_K, 256, 176, Q8K}, {GGML_Q6_K, 256, 210, Q8S},
};
const SourceType *type_of(int32_t source) {
  for (const SourceType &t : types)
    if (t.source == source) return &t;
  return nullptr;
}

}  // namespace

int source_block_weights(int32_t source) {
  const SourceType *t = type_of(source);
  return t ? t->weights : 0;
}
int source_block_bytes(int32_t source) {
  const SourceType *t = type_of(source);
  return t ? t->bytes : 0;
}
int32_t source_format(int32_t source) {
  const SourceType *t = type_of(source);
  return t ? t->format : -1;
}

void read_block(int32_t source, const uint8_t *row, int64_t index, Block32 *out) {
  const SourceType *t = type_of(source);
  const int subs = t->weights / 32;
  const uint8_t *p = row + index / subs * t->bytes;
  const int sub = (int)(index % subs);
  out->minimum = 0.0f;
  switch (source) {
    case GGML_Q4_0:
    case GGML_Q4_1:
      nibbles(p + (source == GGML_Q4_0 ? 2 : 4), out->q);
      break;
    case GGML_Q5_0:
    case GGML_Q5_1: {
      const int head = source == GGML_Q5_0 ? 2 : 4;
      nibbles(p + head + 4, out->q);
      fifth_bits(word_at(p + head), out->q);
      break;
    }
    case GGML_Q8_0:
      for (int j = 0; j < 32; j++) out->q[j] = (int8_t)p[2 + j];
      break;
    case GGML_Q4_K:
    case GGML_Q5_K:
      return read_k(p, sub, source == GGML_Q5_K, out);
    default:
      return read_q6(p, sub, out);
  }
  out->scale[0] = out->scale[1] = half_at(p);
  if (source == GGML_Q4_0) out->minimum = -8.0f * out->scale[0];
  if (source == GGML_Q4_1 || source == GGML_Q5_1) out->minimum = half_at(p + 2);
  if (source == GGML_Q5_0)
    for (int j = 0; j < 32; j++) out->q[j] -= 16;
}

void read_floats(int32_t source, const uint8_t *row, int64_t index, int n, float *out) {
  const uint8_t *p = row + index * 32 * (source == GGML_F32 ? 4 : 2);
  if (source == GGML_F32) {
    memcpy(out, p, (size_t)n * 4);
  } else if (source == GGML_F16 || source == GGML_BF16) {
    for (int j = 0; j < n; j++) {
      uint16_t h;
      memcpy(&h, p + 2 * j, 2);
      out[j] = source == GGML_F16 ? half_float(h) : bf16_float(h);
    }
  } else {
    Block32 b;
    read_block(source, row, index, &b);
    for (int j = 0; j < n; j++) out[j] = b.scale[j / 16] * (float)b.q[j] + b.minimum;
  }
}

}  // namespace outpace
