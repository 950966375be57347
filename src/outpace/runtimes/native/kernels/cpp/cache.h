// Where a key or value lies in the page pools.
//
// Per layer and page: K as [kv_head][page_size / 16][head_pad][16 slots], so that sixteen scores
// are sixteen lanes and need no sum across them; V as [kv_head][page_size][head_pad].
#pragma once
#include "engine.h"

namespace outpace {

struct Cache {
  uint8_t *k, *v;  // of one layer
  const int32_t *table;
  int32_t page_size, head_pad, element_bytes;
  int64_t page_elements;

  int64_t page_base(int head, int slot) const {
    return table[slot / page_size] * page_elements + (int64_t)head * page_size * head_pad;
  }
  // Element of the sixteen keys around slot, dimension 0; dimension d is 16·d further.
  int64_t key_group(int head, int slot) const {
    return page_base(head, slot) + (int64_t)(slot % page_size / 16) * 16 * head_pad;
  }
  int64_t value(int head, int slot) const {
    return page_base(head, slot) + (int64_t)(slot % page_size) * head_pad;
  }
};

inline int kv_element_bytes(int kv_type) { return kv_type == 0 ? 4 : 2; }

inline Cache cache_of(const Job &job, int layer, int sequence) {
  const OutpaceModel &m = *job.model;
  const OutpacePass &p = *job.pass;
  const int size = kv_element_bytes(m.kv_type);
  const int64_t layer_bytes = p.n_pages * job.shape.page_elements * size;
  return Cache{(uint8_t *)p.k_pool + layer * layer_bytes,
               (uint8_t *)p.v_pool + layer * layer_bytes,
               p.page_tables + (int64_t)sequence * p.max_pages,
               m.page_size,
               job.shape.head_pad,
               size,
               job.shape.page_elements};
}

}  // namespace outpace
