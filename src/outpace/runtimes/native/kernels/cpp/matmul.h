// Matrix products: one tile of sixteen outputs times up to MAX_ROWS rows at a time.
//
// A lane's sum is made of the same operations in the same order whatever the number of rows: for
// each block of 32 inputs one integer sum, made float, times (weight scale · row scale), added by
// FMA; then the minimum's share. Weights are loaded once for all rows of a register tile.
#pragma once
#include <array>
#include <utility>

#include "engine.h"

namespace {

using outpace::Layout;

constexpr int AHEAD = 6144;  // bytes fetched ahead of use: about the memory's latency at full rate

template <bool WIDE>
inline vf load_scale(const uint8_t *p) {
  if constexpr (WIDE)
    return vload((const float *)p);
  else
    return vload_half((const uint16_t *)p);
}

// The integer sum of groups [FIRST, LAST): start + weights · row.
template <bool FINE, int FIRST, int LAST>
inline vi row_dot(const Weights &weights, const int8_t *q, const int8_t *low, int32_t start) {
  if constexpr (FINE)
    return join(dot<FIRST, LAST>(weights, q, 0), dot<FIRST, LAST>(weights, low, start));
  return dot<FIRST, LAST>(weights, q, start);
}

template <class L, int MR, bool FINE>
inline void block_product(const uint8_t *w, const uint8_t *s, const int8_t *q,
                          const BlockMeta *meta, const Rows &x, vf *sum) {
  constexpr int width = outpace::LANES * L::scale_size;
  const Weights weights = load_weights<L::bits>(w);
  const vf scale = load_scale<L::wide>(s);
  vf second = scale;
  if constexpr (L::has_min || L::n_scales == 2) second = load_scale<L::wide>(s + width);
#pragma GCC unroll 16
  for (int r = 0; r < MR; r++) {
    const int8_t *qr = q + r * x.k, *low = qr + (x.low - x.q);
    const BlockMeta &m = meta[r * x.n_blocks];
    const vf row_scale = vset(m.scale);
    if constexpr (L::n_scales == 2) {
      const vi first = row_dot<FINE, 0, 4>(weights, qr, low, m.offset_low);
      const vi last = row_dot<FINE, 4, 8>(weights, qr, low, m.offset - m.offset_low);
      sum[r] = vfma(vcvt(first), vmul(scale, row_scale), sum[r]);
      sum[r] = vfma(vcvt(last), vmul(second, row_scale), sum[r]);
    } else {
      const vi all = row_dot<FINE, 0, 8>(weights, qr, low, L::has_min ? 0 : m.offset);
      sum[r] = vfma(vcvt(all), vmul(scale, row_scale), sum[r]);
      if constexpr (L::has_min) sum[r] = vfma(second, vset(m.sum), sum[r]);
    }
  }
}

template <int FORMAT>
inline vf load_float_weights(const uint8_t *p) {
  if constexpr (FORMAT == outpace::F32) return vload((const float *)p);
  if constexpr (FORMAT == outpace::BF16) return vload_bf16((const uint16_t *)p);
  return vload_half((const uint16_t *)p);
}

// Even and odd inputs have a sum each, so that one row keeps two multipliers busy.
template <int FORMAT, int MR>
inline void float_step(const uint8_t *w, const float *f, int64_t stride, vf *even, vf *odd) {
  constexpr int width = outpace::LANES * Layout<FORMAT>::size;
  for (int i = 0; i < outpace::STEP; i += 2) {
    const vf a = load_float_weights<FORMAT>(w + i * width);
    const vf b = load_float_weights<FORMAT>(w + (i + 1) * width);
#pragma GCC unroll 16
    for (int r = 0; r < MR; r++) {
      even[r] = vfma(a, vset(f[r * stride + i]), even[r]);
      odd[r] = vfma(b, vset(f[r * stride + i + 1]), odd[r]);
    }
  }
}

template <int FORMAT, int MR, bool FINE>
inline void register_tile(const uint8_t *tile, int n_steps, const Rows &x, int64_t row,
                          float *out) {
  using L = Layout<FORMAT>;
  vf sum[MR], odd[MR];
#pragma GCC unroll 16
  for (int r = 0; r < MR; r++) sum[r] = odd[r] = vzero();
  const int8_t *q = x.q + row * x.k;
  const BlockMeta *meta = x.meta + row * x.n_blocks;
  const float *f = x.f + row * x.k;
  for (int step = 0; step < n_steps; step++) {
    const uint8_t *w = tile + (int64_t)step * L::step_bytes;
    for (int i = 0; i < L::step_bytes; i += 64) prefetch(w + AHEAD + i);
    if constexpr (L::integer) {
      const uint8_t *s = w + 2 * L::weight_bytes;
      block_product<L, MR, FINE>(w, s, q, meta, x, sum);
      block_product<L, MR, FINE>(w + L::weight_bytes, s + L::scale_bytes, q + 32, meta + 1, x, sum);
      q += 64;
      meta += 2;
    } else {
      float_step<FORMAT, MR>(w, f, x.k, sum, odd);
      f += outpace::STEP;
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < MR; r++) {
    if constexpr (!L::integer) sum[r] = vadd(sum[r], odd[r]);
    vstore(out + r * outpace::LANES, sum[r]);
  }
}

// The size of parts alike into which n rows fall when a part has at most `most`.
inline int even_part(int64_t n, int most) {
  const int64_t parts = (n + most - 1) / most;
  return (int)((n + parts - 1) / parts);
}

using TileProduct = void (*)(const uint8_t *, int, const Rows &, int64_t, float *);

// Register tiles of 1 .. MOST rows; where WHOLE is not set, those between powers of two are the
// next smaller one, since rarely used code should not take long to compile.
template <int FORMAT, bool FINE, bool WHOLE, int... MR>
constexpr auto tiles_of(std::integer_sequence<int, MR...>) {
  constexpr auto size = [](int n) { return WHOLE ? n : n < 2 ? 1 : n < 4 ? 2 : n < 8 ? 4 : n & 24; };
  return std::array<TileProduct, sizeof...(MR)>{register_tile<FORMAT, size(MR + 1), FINE>...};
}

// out[n_rows][16]: one tile of sixteen outputs for rows [row, row + n_rows).
template <int FORMAT, bool FINE>
void tile_product(const uint8_t *tile, int n_steps, const Rows &x, int64_t row, int n_rows,
                  float *out) {
  constexpr bool integer = Layout<FORMAT>::integer, whole = integer && !FINE;
  constexpr int most = integer || MAX_ROWS < 8 ? MAX_ROWS : 8;
  static constexpr auto tiles =
      tiles_of<FORMAT, FINE, whole>(std::make_integer_sequence<int, most>{});
  while (n_rows > 0) {
    int now = whole ? even_part(n_rows, most) : n_rows < most ? n_rows : most;
    if (!whole) now = now < 2 ? 1 : now < 4 ? 2 : now < 8 ? 4 : now & 24;
    tiles[(size_t)now - 1](tile, n_steps, x, row, out);
    row += now;
    n_rows -= now;
    out += (int64_t)now * outpace::LANES;
  }
}

// fine: the rows were rounded to 15 bits.
inline void product(const OutpaceMatrix &m, int64_t tile, const Rows &x, int64_t row, int n_rows,
                    bool fine, float *out) {
  using Fn = void (*)(const uint8_t *, int, const Rows &, int64_t, int, float *);
  static constexpr Fn by_format[2][outpace::N_FORMATS] = {
      {tile_product<0, false>, tile_product<1, false>, tile_product<2, false>,
       tile_product<3, false>, tile_product<4, false>, tile_product<5, false>,
       tile_product<6, false>, tile_product<7, false>, tile_product<8, false>},
      {tile_product<0, false>, tile_product<1, false>, tile_product<2, false>,
       tile_product<3, true>, tile_product<4, true>, tile_product<5, true>, tile_product<6, true>,
       tile_product<7, true>, tile_product<8, true>}};
  by_format[fine][m.format](m.data + tile * m.tile_bytes, m.n_steps, x, row, n_rows, out);
}

// Fetch rows another core has just written before the products need them: one miss costs as much
// as a tile's row, and the products would meet them one by one.
inline void fetch_rows(const Rows &x, int64_t n_rows, int format, bool fine) {
  constexpr int64_t few = 32;  // more rows hide their misses behind each other
  if (n_rows > few) return;
  const auto fetch = [](const void *from, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64) prefetch((const char *)from + i);
  };
  if (outpace::is_integer(format)) {
    fetch(x.q, n_rows * x.k);
    if (fine) fetch(x.low, n_rows * x.k);
    fetch(x.meta, n_rows * x.n_blocks * (int64_t)sizeof(BlockMeta));
  } else {
    fetch(x.f, n_rows * x.k * 4);
  }
}

}  // namespace
