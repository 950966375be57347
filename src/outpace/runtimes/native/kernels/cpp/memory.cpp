// Memory for weights and workspace: chunks on huge pages, so that reading all weights costs few
// address translations, filled from the bottom and returned when nothing in them lives.
#include <stdlib.h>
#include <string.h>

#include <mutex>
#include <vector>

#include "engine.h"
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace outpace {
namespace {

constexpr size_t HUGE_PAGE = 2 << 20;
constexpr size_t CHUNK = 32 << 20;

struct Chunk {
  uint8_t *base;
  size_t size, used;
  int live;
};
std::mutex lock;
std::vector<Chunk> chunks;

uint8_t *take_chunk(size_t bytes) {
  void *p = nullptr;
  if (posix_memalign(&p, HUGE_PAGE, bytes)) return nullptr;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  madvise(p, bytes, MADV_HUGEPAGE);
#endif
  return (uint8_t *)p;
}

}  // namespace

void *take_memory(size_t bytes) {
  const std::lock_guard<std::mutex> hold(lock);
  bytes = (bytes + 127) / 64 * 64;  // one line more: loads of sixteen may look past an end
  if (chunks.empty() || chunks.back().used + bytes > chunks.back().size) {
    const size_t size = bytes > CHUNK / 2 ? (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE : CHUNK;
    uint8_t *base = take_chunk(size);
    if (!base) return nullptr;
    chunks.push_back(Chunk{base, size, 0, 0});
    // A chunk filled by one large piece goes below the one still being filled.
    if (chunks.size() > 1 && size != CHUNK) {
      Chunk &own = chunks.back();
      own.used = bytes;
      own.live = 1;
      memset(base, 0, bytes);
      std::swap(chunks[chunks.size() - 1], chunks[chunks.size() - 2]);
      return base;
    }
  }
  Chunk &c = chunks.back();
  uint8_t *p = c.base + c.used;
  c.used += bytes;
  c.live++;
  memset(p, 0, bytes);
  return p;
}

void give_memory(void *memory) {
  if (!memory) return;
  const std::lock_guard<std::mutex> hold(lock);
  for (size_t i = 0; i < chunks.size(); i++) {
    Chunk &c = chunks[i];
    if ((uint8_t *)memory < c.base || (uint8_t *)memory >= c.base + c.size) continue;
    if (--c.live == 0) {
      free(c.base);
      chunks.erase(chunks.begin() + (long)i);
    }
    return;
  }
}

}  // namespace outpace
