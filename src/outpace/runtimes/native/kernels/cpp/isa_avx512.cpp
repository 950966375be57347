// The kernels compiled for one instruction set: avx512.
#include <atomic>
#include <stddef.h>
#include <stdint.h>
#define OUTPACE_WIDE 1
#include "simd_avx512.h"
#include "advance.h"
#include "answer.h"

namespace outpace {
extern const Kernels kernels_avx512;
const Kernels kernels_avx512 = {"avx512", run_pass, product_alone, run_head};
}  // namespace outpace
