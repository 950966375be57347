// What a pass works on: the engine, its workspace, the plan of one pass. Plain data, so that every
// instruction set's copy of the kernels can share it.
#pragma once
#include <atomic>
#include <stdint.h>

#include "abi.h"
#include "formats.h"

namespace outpace {

class Pool;

constexpr int KEY_BLOCK = 128;  // positions whose scores are weighed together; fixes the bits
constexpr int ROW_BLOCK = 128;  // rows that stay in the second-level cache under a matrix
constexpr int PHASES_PER_LAYER = 12;
constexpr int32_t NOBODY = INT32_MAX;  // no token

// What integer products need to know of 32 values of a row.
struct BlockMeta {
  float scale;         // value = scale · number
  float sum;           // scale · (sum of the numbers): multiplies a weight's minimum
  int32_t offset;      // -128 · (sum of the numbers)
  int32_t offset_low;  // the same of the first 16
};

// Rows ready to be multiplied: as floats, and as numbers with a scale per block: bytes, or, where
// rows are fine, 128 · byte + low byte.
struct Rows {
  float *f;
  int8_t *q, *low;
  BlockMeta *meta;
  int64_t k;         // values of a row, padded to STEP
  int64_t n_blocks;  // of 32
};

struct RowInfo {
  int32_t sequence, position;
  int32_t slot;    // logical index of its K and V in its sequence
  int32_t linear;  // positions below this lie at the slot of the same number
  int64_t path;    // slots of positions [linear, position] start here in Plan::paths
};

// Rows of one sequence and one K/V head, whose scores are computed together.
struct Tile {
  int32_t sequence, head, first, last, n_blocks;
  int64_t partial;  // where its partial sums lie when its blocks are split over threads, or -1
};

struct Plan {
  RowInfo *rows;
  int32_t *paths;
  Tile *tiles;
  int32_t n_tiles, max_tile_rows;
  int32_t split;  // 1: an item is one key block of a tile; 0: a whole tile
  int32_t *item_tile, *item_block;
  int32_t n_items;
  int64_t n_partials, scratch_bytes;  // partial sums needed, and attention scratch per thread
};

struct Work {
  float *x, *y, *qkv, *logits;
  Rows normed, attended, gated, final_rows;
  float *partials;
  std::atomic<int32_t> *arrivals;  // [tiles]
  int32_t *best_ids;               // [threads][asked]
  float *best_logits;
  std::atomic<int32_t> *counters;  // [threads + 1][phases]: items taken of each, and items done
  int64_t n_phases;
  uint8_t *scratch;  // [threads][scratch_bytes]
  int64_t scratch_bytes;
};

struct Shape {
  int32_t hidden, q_width, kv_width;  // padded to 32; where k and v start in qkv follows
  int32_t head_pad, group;            // head size padded to 16; query heads of a K/V head
  int64_t page_elements, layer_elements;
};

struct Job {
  const OutpaceModel *model;
  const OutpacePass *pass;
  const Plan *plan;
  Work *work;
  Shape shape;
  Pool *pool;
  int32_t n_threads;
};

struct HeadJob;  // head.h

// One instruction set's kernels.
struct Kernels {
  const char *name;
  void (*pass)(const Job &job, int thread);
  void (*product)(const Rows &x, const OutpaceMatrix &matrix, int32_t n_rows, bool fine,
                  float *out);
  void (*head)(const HeadJob &job, int thread);
};
const Kernels *kernels_named(const char *name);  // null: unknown, or this processor lacks it

// Row `row` of the packed weights as floats, zeros after the last up to a multiple of STEP.
void matrix_row(const OutpaceMatrix &matrix, int64_t row, float *out);

// Remember why a call fails; returns 1, for `return fail(...)`.
int32_t fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Check a pass against its engine and lay out its work; storage lives until the next call.
struct Planner;
Planner *planner_new();
void planner_free(Planner *planner);
int32_t plan_pass(Planner *planner, const OutpaceModel &model, const Shape &shape,
                  const OutpacePass &pass, int32_t n_threads, Plan *plan);

// Zeroed memory aligned to 64 bytes, on huge pages where the system has them; null: none left.
// Weights packed one after another lie one after another.
void *take_memory(size_t bytes);
void give_memory(void *memory);

}  // namespace outpace
