// Products of many rows with a whole matrix, tile by tile, shared between the threads of a pass.
#pragma once
#include "matmul.h"
#include "share.h"

namespace {

using outpace::LANES;
using outpace::ROW_BLOCK;

inline int64_t row_blocks(int64_t n_rows) { return (n_rows + ROW_BLOCK - 1) / ROW_BLOCK; }
inline int64_t grain_of(const OutpaceMatrix &m) {
  const int64_t grain = 16384 / (int64_t)m.tile_bytes;
  return grain > 0 ? grain : 1;
}

// Products of rows with a matrix, handed on sixteen outputs of a row at a time.
template <class Sink>
inline void product_rows(const OutpaceMatrix &m, int64_t tile, const Rows &x, int64_t first,
                         int64_t last, bool fine, float *target, int64_t stride, Sink &&sink) {
  alignas(64) float out[16 * LANES];
  const int part = even_part(last - first, 16);
  for (int64_t row = first; row < last; row += part) {
    const int n = (int)(last - row < part ? last - row : part);
    // Another core has read these lines; asking for them now hides the wait behind the product.
    if (target)
      for (int r = 0; r < n; r++) prefetch_write(target + (row + r) * stride);
    product(m, tile, x, row, n, fine, out);
    for (int r = 0; r < n; r++) sink(row + r, vload(out + r * LANES));
  }
}
template <class Sink>
inline void share_product(Place &at, const OutpaceMatrix &m, const Rows &x, int64_t n_rows,
                          bool fine, float *target, int64_t stride, Sink &&sink) {
  if (at.job.n_threads > 1) fetch_rows(x, n_rows, m.format, fine);
  share(at, row_blocks(n_rows) * m.n_tiles, grain_of(m), [&](int64_t item) {
    const int64_t first = item / m.n_tiles * ROW_BLOCK, tile = item % m.n_tiles;
    const int64_t last = first + ROW_BLOCK < n_rows ? first + ROW_BLOCK : n_rows;
    float *to = target ? target + tile * LANES : nullptr;
    product_rows(m, tile, x, first, last, fine, to, stride,
                 [&](int64_t row, vf sum) { sink(row, tile * LANES, sum); });
  });
}

}  // namespace
