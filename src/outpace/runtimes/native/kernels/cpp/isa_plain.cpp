// The kernels compiled for one instruction set: plain.
#include <atomic>
#include <stddef.h>
#include <stdint.h>

#include "simd_plain.h"
#include "advance.h"
#include "answer.h"

namespace outpace {
extern const Kernels kernels_plain;
const Kernels kernels_plain = {"plain", run_pass, product_alone, run_head};
}  // namespace outpace
