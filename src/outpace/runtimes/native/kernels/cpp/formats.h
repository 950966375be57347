// The packed weight formats and where each byte lies.
//
// Outputs go sixteen to a tile, inputs 64 to a step; tiles follow one another, steps too, so a
// product reads a matrix once and in order. A step of an integer format holds two blocks of 32
// inputs: both blocks' weights, then both blocks' scales (and minimums). Weights of a block are
// eight groups of four inputs by sixteen outputs, which is what one dot-product instruction eats.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace outpace {

constexpr int LANES = 16;  // outputs of a tile
constexpr int STEP = 64;   // inputs of a step; row buffers are padded to it
constexpr int BLOCK = 32;  // inputs that share a row's scale

enum Format : int32_t {
  F32 = 0,   // float
  BF16 = 1,  // bfloat16
  F16 = 2,   // half
  Q8 = 3,    // s·q, s half: GGUF Q8_0 and Q5_0, and our own rounding to 8 bits
  Q4 = 4,    // s·q + m, half: Q4_0, Q4_1, and our own rounding to 4 bits
  Q4K = 5,   // s·q + m, 4 bits with float s and m: Q4_K
  Q8M = 6,   // s·q + m, 8 bits, half: Q5_1
  Q8K = 7,   // s·q + m, 8 bits, float: Q5_K
  Q8S = 8,   // s·q with a float s for every 16 inputs: Q6_K
  N_FORMATS = 9,
};

// Layout of an integer format. Formats without a minimum store q + 128, so that weights are
// unsigned; the row's sum times 128 is taken off again, exactly, in the integer accumulator.
template <int BITS_, bool WIDE_, bool MIN_, int GROUPS_>
struct Int {
  static constexpr bool integer = true;
  static constexpr int bits = BITS_;   // 4 or 8
  static constexpr bool wide = WIDE_;  // float scales, or half
  static constexpr bool has_min = MIN_;
  static constexpr int n_scales = GROUPS_;  // scales per block of 32: 1, or 2 for blocks of 16
  static constexpr int weight_bytes = BITS_ == 8 ? 512 : 256;
  static constexpr int scale_size = WIDE_ ? 4 : 2;
  static constexpr int scale_bytes = LANES * scale_size * (GROUPS_ + (MIN_ ? 1 : 0));
  static constexpr int step_bytes = 2 * (weight_bytes + scale_bytes);
};
template <int SIZE_>
struct Float {
  static constexpr bool integer = false;
  static constexpr int size = SIZE_;
  static constexpr int step_bytes = STEP * LANES * SIZE_;
};
template <int FORMAT>
struct Layout;
template <>
struct Layout<F32> : Float<4> {};
template <>
struct Layout<BF16> : Float<2> {};
template <>
struct Layout<F16> : Float<2> {};
template <>
struct Layout<Q8> : Int<8, false, false, 1> {};
template <>
struct Layout<Q4> : Int<4, false, true, 1> {};
template <>
struct Layout<Q4K> : Int<4, true, true, 1> {};
template <>
struct Layout<Q8M> : Int<8, false, true, 1> {};
template <>
struct Layout<Q8K> : Int<8, true, true, 1> {};
template <>
struct Layout<Q8S> : Int<8, true, false, 2> {};

inline int step_bytes(int format) {
  switch (format) {
    case F32:
      return Layout<F32>::step_bytes;
    case BF16:
      return Layout<BF16>::step_bytes;
    case F16:
      return Layout<F16>::step_bytes;
    case Q8:
      return Layout<Q8>::step_bytes;
    case Q4:
      return Layout<Q4>::step_bytes;
    case Q4K:
      return Layout<Q4K>::step_bytes;
    case Q8M:
      return Layout<Q8M>::step_bytes;
    case Q8K:
      return Layout<Q8K>::step_bytes;
    default:
      return Layout<Q8S>::step_bytes;
  }
}
inline bool is_integer(int format) { return format >= Q8; }
inline int round_up(int64_t n, int to) { return (int)((n + to - 1) / to * to); }

}  // namespace outpace

struct OutpaceMatrix {
  int32_t format, n, k;
  int32_t n_tiles;  // of 16 outputs, always an even number
  int32_t n_steps;  // of 64 inputs
  size_t tile_bytes, bytes;
  uint8_t *data;
};
