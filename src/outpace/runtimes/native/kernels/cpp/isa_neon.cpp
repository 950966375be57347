// The kernels compiled for one instruction set: neon.
#include <atomic>
#include <stddef.h>
#include <stdint.h>

#include "simd_neon.h"
#include "advance.h"
#include "answer.h"

namespace outpace {
extern const Kernels kernels_neon;
const Kernels kernels_neon = {"neon", run_pass, product_alone, run_head};
}  // namespace outpace
