// Packing weights: GGUF blocks or plain arrays in, tiles of sixteen outputs out (formats.h).
#include <math.h>
#include <string.h>

#include <new>

#include "blocks.h"
#include "engine.h"
#include "halves.h"

namespace outpace {
namespace {

struct Traits {
  int bits, weight_bytes, scale_size, n_scales, scale_bytes;
  bool wide, has_min;
};
template <int F>
Traits traits_as() {
  using L = Layout<F>;
  return {L::bits,        L::weight_bytes, L::scale_size, L::n_scales,
          L::scale_bytes, L::wide,         L::has_min};
}
Traits traits_of(int format) {
  switch (format) {
    case Q8:
      return traits_as<Q8>();
    case Q4:
      return traits_as<Q4>();
    case Q4K:
      return traits_as<Q4K>();
    case Q8M:
      return traits_as<Q8M>();
    case Q8K:
      return traits_as<Q8K>();
    default:
      return traits_as<Q8S>();
  }
}

// Where block b of 32 inputs of a tile keeps its weights and its scales.
struct Spot {
  uint8_t *weights, *scales;
};
Spot spot_of(const OutpaceMatrix &m, const Traits &t, int64_t tile, int64_t block) {
  uint8_t *step = m.data + tile * m.tile_bytes + block / 2 * step_bytes(m.format);
  return {step + block % 2 * t.weight_bytes, step + 2 * t.weight_bytes + block % 2 * t.scale_bytes};
}
void put_scale(const Traits &t, uint8_t *p, int lane, float s) {
  if (t.wide) {
    memcpy(p + 4 * lane, &s, 4);
  } else {
    const uint16_t h = float_half(s);
    memcpy(p + 2 * lane, &h, 2);
  }
}
float get_scale(const Traits &t, const uint8_t *p, int lane) {
  if (t.wide) {
    float s;
    memcpy(&s, p + 4 * lane, 4);
    return s;
  }
  uint16_t h;
  memcpy(&h, p + 2 * lane, 2);
  return half_float(h);
}

void put_block(const OutpaceMatrix &m, const Traits &t, int64_t row, int64_t block,
               const Block32 &b) {
  const Spot at = spot_of(m, t, row / LANES, block);
  const int lane = (int)(row % LANES), second = LANES * t.scale_size;
  put_scale(t, at.scales, lane, b.scale[0]);
  if (t.n_scales == 2) put_scale(t, at.scales + second, lane, b.scale[1]);
  if (t.has_min) put_scale(t, at.scales + second, lane, b.minimum);
  for (int j = 0; j < 32; j++) {
    const int group = j / 4, byte = lane * 4 + j % 4;
    if (t.bits == 8)
      at.weights[64 * group + byte] = (uint8_t)(b.q[j] + (t.has_min ? 0 : 128));
    else
      at.weights[64 * (group % 4) + byte] |= (uint8_t)(b.q[j] << (group < 4 ? 0 : 4));
  }
}

// Round 32 weights to 8 bits, symmetric: scale = max|w| / 127, as a half.
void round8(const float *w, Block32 *b) {
  float top = 0.0f;
  for (int j = 0; j < 32; j++) top = fmaxf(top, fabsf(w[j]));
  const float s = half_float(float_half(top / 127.0f));
  b->scale[0] = b->scale[1] = s;
  b->minimum = 0.0f;
  for (int j = 0; j < 32; j++)
    b->q[j] = s > 0.0f ? (int32_t)lrintf(fminf(127.0f, fmaxf(-127.0f, w[j] / s))) : 0;
}
// Round 32 weights to 4 bits between their least and greatest.
void round4(const float *w, Block32 *b) {
  float low = w[0], high = w[0];
  for (int j = 1; j < 32; j++) low = fminf(low, w[j]), high = fmaxf(high, w[j]);
  const float m = half_float(float_half(low)), s = half_float(float_half((high - m) / 15.0f));
  b->scale[0] = b->scale[1] = s;
  b->minimum = m;
  for (int j = 0; j < 32; j++)
    b->q[j] = s > 0.0f ? (int32_t)lrintf(fminf(15.0f, fmaxf(0.0f, (w[j] - m) / s))) : 0;
}

void put_floats(const OutpaceMatrix &m, int64_t row, int64_t block, int n, const float *w) {
  const int size = m.format == F32 ? 4 : 2;
  uint8_t *tile = m.data + row / LANES * m.tile_bytes;
  for (int j = 0; j < n; j++) {
    uint8_t *p = tile + ((block * 32 + j) * LANES + row % LANES) * size;
    const uint16_t h = m.format == F16 ? float_half(w[j]) : float_bf16(w[j]);
    memcpy(p, size == 4 ? (const void *)(w + j) : (const void *)&h, (size_t)size);
  }
}

int32_t pack_row(const OutpaceMatrix &m, int32_t source, const uint8_t *data, int64_t row) {
  const int64_t blocks = (m.k + 31) / 32;
  const bool exact = source_format(source) == m.format && is_integer(m.format);
  const Traits t = traits_of(m.format);
  for (int64_t i = 0; i < blocks; i++) {
    const int n = m.k - i * 32 < 32 ? (int)(m.k - i * 32) : 32;
    Block32 b;
    if (exact) {
      read_block(source, data, i, &b);
      if (!isfinite(b.scale[0]) || !isfinite(b.scale[1]) || !isfinite(b.minimum))
        return fail("row %lld has a block scale that is not a number", (long long)row);
      put_block(m, t, row, i, b);
      continue;
    }
    float w[32] = {};
    read_floats(source, data, i, n, w);
    for (int j = 0; j < n; j++)
      if (!isfinite(w[j]))
        return fail("weight [%lld, %lld] is not a number", (long long)row, (long long)i * 32 + j);
    if (!is_integer(m.format)) {
      put_floats(m, row, i, n, w);
    } else {
      m.format == Q8 ? round8(w, &b) : round4(w, &b);
      put_block(m, t, row, i, b);
    }
  }
  return 0;
}

}  // namespace

void matrix_row(const OutpaceMatrix &m, int64_t row, float *out) {
  const int lane = (int)(row % LANES);
  if (!is_integer(m.format)) {
    const int size = m.format == F32 ? 4 : 2;
    const uint8_t *tile = m.data + row / LANES * m.tile_bytes;
    for (int64_t i = 0; i < (int64_t)m.n_steps * STEP; i++) {
      uint16_t h;
      memcpy(&h, tile + (i * LANES + lane) * size, 2);
      if (size == 4) memcpy(out + i, tile + (i * LANES + lane) * 4, 4);
      if (size == 2) out[i] = m.format == F16 ? half_float(h) : bf16_float(h);
    }
    return;
  }
  const Traits t = traits_of(m.format);
  for (int64_t block = 0; block < 2 * (int64_t)m.n_steps; block++) {
    const Spot at = spot_of(m, t, row / LANES, block);
    const float s = get_scale(t, at.scales, lane);
    const float second =
        t.has_min || t.n_scales == 2 ? get_scale(t, at.scales + LANES * t.scale_size, lane) : s;
    for (int j = 0; j < 32; j++) {
      const int group = j / 4, byte = lane * 4 + j % 4;
      const int raw = t.bits == 8
                          ? at.weights[64 * group + byte]
                          : (at.weights[64 * (group % 4) + byte] >> (group < 4 ? 0 : 4)) & 15;
      const float q = (float)(raw - (t.has_min ? 0 : 128));
      out[32 * block + j] = t.has_min ? s * q + second : (j < 16 ? s : second) * q;
    }
  }
}

}  // namespace outpace

using namespace outpace;

OUTPACE_API int32_t outpace_pack(const void *data, int64_t n_bytes, int32_t source, int64_t n,
                                 int64_t k, int32_t target, OutpaceMatrix **out) {
  *out = nullptr;
  const int weights = source_block_weights(source), bytes = source_block_bytes(source);
  if (!weights) return fail("GGML type %d is not supported", source);
  if (target == -1) target = source_format(source);
  const bool rounds = target == Q8 || target == Q4 || (target >= F32 && target <= F16);
  if (target != source_format(source) && !rounds)
    return fail("cannot round GGML type %d to format %d", source, target);
  if (n < 1 || k < 1 || n > (1 << 28) || k > (1 << 24))
    return fail("a matrix of %lld by %lld weights", (long long)n, (long long)k);
  if (k % weights)
    return fail("rows of %lld weights do not fit blocks of %d (GGML type %d)", (long long)k,
                weights, source);
  const int64_t row_bytes = k / weights * bytes;
  if (n_bytes != n * row_bytes)
    return fail("%lld by %lld weights of GGML type %d take %lld bytes, not %lld", (long long)n,
                (long long)k, source, (long long)(n * row_bytes), (long long)n_bytes);
  OutpaceMatrix *m = new (std::nothrow) OutpaceMatrix{};
  if (!m) return fail("out of memory");
  m->format = target;
  m->n = (int32_t)n;
  m->k = (int32_t)k;
  m->n_tiles = round_up(n, 2 * LANES) / LANES;
  m->n_steps = round_up(k, STEP) / STEP;
  m->tile_bytes = (size_t)m->n_steps * step_bytes(target);
  m->bytes = m->tile_bytes * m->n_tiles;
  m->data = (uint8_t *)take_memory(m->bytes);
  int32_t failed = m->data ? 0 : fail("out of memory for %zu bytes of weights", m->bytes);
  for (int64_t row = 0; row < n && !failed; row++)
    failed = pack_row(*m, source, (const uint8_t *)data + row * row_bytes, row);
  if (failed) {
    outpace_matrix_free(m);
    return 1;
  }
  *out = m;
  return 0;
}

OUTPACE_API void outpace_matrix_free(OutpaceMatrix *m) {
  if (!m) return;
  give_memory(m->data);
  delete m;
}
OUTPACE_API int64_t outpace_matrix_bytes(const OutpaceMatrix *m) { return (int64_t)m->bytes; }
OUTPACE_API int32_t outpace_matrix_format(const OutpaceMatrix *m) { return m->format; }

OUTPACE_API int32_t outpace_matrix_rows(const OutpaceMatrix *m, int64_t first, int64_t count,
                                        float *out) {
  if (first < 0 || count < 0 || first + count > m->n)
    return fail("rows %lld to %lld of %d", (long long)first, (long long)(first + count), m->n);
  float *row = (float *)take_memory((size_t)m->n_steps * STEP * 4);
  if (!row) return fail("out of memory");
  for (int64_t i = 0; i < count; i++) {
    matrix_row(*m, first + i, row);
    memcpy(out + i * m->k, row, (size_t)m->k * 4);
  }
  give_memory(row);
  return 0;
}
