// GGUF's blocks, 32 weights at a time: weight = scale · q + minimum, with nothing rounded.
#pragma once
#include <stdint.h>

namespace outpace {

enum Source : int32_t {  // GGML's type numbers
  GGML_F32 = 0,
  GGML_F16 = 1,
  GGML_Q4_0 = 2,
  GGML_Q4_1 = 3,
  GGML_Q5_0 = 6,
  GGML_Q5_1 = 7,
  GGML_Q8_0 = 8,
  GGML_Q4_K = 12,
  GGML_Q5_K = 13,
  GGML_Q6_K = 14,
  GGML_BF16 = 30,
};

struct Block32 {
  int32_t q[32];
  float scale[2];  // of each half
  float minimum;
};

// Weights of a block and its bytes; 0 when the type is not known here.
int source_block_weights(int32_t source);
int source_block_bytes(int32_t source);
// The packed format that holds the source exactly, or -1.
int32_t source_format(int32_t source);
// Block `index` of 32 weights of a row. For integer sources only.
void read_block(int32_t source, const uint8_t *row, int64_t index, Block32 *out);
// The same of any source, as floats.
void read_floats(int32_t source, const uint8_t *row, int64_t index, int n, float *out);

}  // namespace outpace
