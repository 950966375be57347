// The kernels compiled for one instruction set: avxvnni.
#include <atomic>
#include <stddef.h>
#include <stdint.h>
#define OUTPACE_VNNI 1
#include "simd_avx2.h"
#include "advance.h"
#include "answer.h"

namespace outpace {
extern const Kernels kernels_avxvnni;
const Kernels kernels_avxvnni = {"avxvnni", run_pass, product_alone, run_head};
}  // namespace outpace
