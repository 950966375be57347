// Moving and reading single slots of the page pools.
#include <string.h>

#include <new>
#include <vector>

#include "cache.h"
#include "halves.h"
#include "model.h"

using namespace outpace;

namespace {

struct Slots {
  const OutpaceModel &m;
  const Shape &shape;
  int size;
  int64_t n_pages;

  int64_t element(bool key, int layer, int head, int64_t slot) const {
    const int64_t page = slot / m.page_size, off = slot % m.page_size;
    const int64_t base = ((int64_t)layer * n_pages + page) * shape.page_elements +
                         (int64_t)head * m.page_size * shape.head_pad;
    if (!key) return base + off * shape.head_pad;
    return base + off / 16 * 16 * shape.head_pad + off % 16;
  }
  // Read (or write) one head's vector of a slot to (from) a plain row of head_pad elements.
  void move(bool key, bool write, uint8_t *pool, int layer, int head, int64_t slot,
            uint8_t *row) const {
    uint8_t *at = pool + element(key, layer, head, slot) * size;
    const int step = key ? 16 * size : size;
    for (int d = 0; d < shape.head_pad; d++)
      memcpy(write ? at + d * step : row + d * size, write ? row + d * size : at + d * step,
             (size_t)size);
  }
};

int32_t check_slots(const OutpaceEngine &e, int64_t n_pages, const int64_t *slots, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (slots[i] < 0 || slots[i] >= n_pages * e.model.page_size)
      return fail("slot %lld of %lld", (long long)slots[i],
                  (long long)(n_pages * e.model.page_size));
  return 0;
}

}  // namespace

OUTPACE_API int32_t outpace_engine_kv_copy(OutpaceEngine *e, void *k_pool, void *v_pool,
                                           int64_t n_pages, const int64_t *sources,
                                           const int64_t *targets, int64_t n) try {
  if (check_slots(*e, n_pages, sources, n) || check_slots(*e, n_pages, targets, n)) return 1;
  const Slots s{e->model, e->shape, kv_element_bytes(e->model.kv_type), n_pages};
  std::vector<uint8_t> row((size_t)e->shape.head_pad * s.size);
  for (int layer = 0; layer < e->model.n_layers; layer++)
    for (int64_t i = 0; i < n; i++)
      for (int head = 0; head < e->model.n_kv_heads; head++)
        for (int key = 0; key < 2; key++) {
          uint8_t *pool = (uint8_t *)(key ? k_pool : v_pool);
          s.move(key, false, pool, layer, head, sources[i], row.data());
          s.move(key, true, pool, layer, head, targets[i], row.data());
        }
  return 0;
} catch (const std::bad_alloc &) {
  return fail("out of memory for copying %lld slots", (long long)n);
}

OUTPACE_API int32_t outpace_engine_kv_read(OutpaceEngine *e, const void *k_pool, const void *v_pool,
                                           int64_t n_pages, int32_t layer, const int64_t *slots,
                                           int64_t n, float *k, float *v) {
  if (layer < 0 || layer >= e->model.n_layers) return fail("layer %d", layer);
  if (check_slots(*e, n_pages, slots, n)) return 1;
  const OutpaceModel &m = e->model;
  const Slots s{m, e->shape, kv_element_bytes(m.kv_type), n_pages};
  uint8_t row[1024 * 4];
  for (int64_t i = 0; i < n; i++)
    for (int head = 0; head < m.n_kv_heads; head++)
      for (int key = 0; key < 2; key++) {
        s.move(key, false, (uint8_t *)(key ? k_pool : v_pool), layer, head, slots[i], row);
        float *out = (key ? k : v) + (i * m.n_kv_heads + head) * m.head_dim;
        for (int d = 0; d < m.head_dim; d++) {
          uint16_t h;
          memcpy(&h, row + 2 * d, 2);
          if (m.kv_type == 0) memcpy(out + d, row + 4 * d, 4);
          if (m.kv_type == 1) out[d] = half_float(h);
          if (m.kv_type == 2) out[d] = bf16_float(h);
        }
      }
  return 0;
}
