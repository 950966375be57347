// Which instruction sets this build has and this processor can run.
#include <string.h>

#include "engine.h"
#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace outpace {

extern const Kernels kernels_plain;
#if defined(__x86_64__)
extern const Kernels kernels_avx512, kernels_avxvnni, kernels_avx2;
#elif defined(__aarch64__)
extern const Kernels kernels_neon;
#endif

namespace {

struct Choice {
  const Kernels *kernels;
  bool (*runs)();
};

#if defined(__x86_64__)
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}
bool has_avxvnni() {
  if (!has_avx2()) return false;
  unsigned a = 7, b, c = 1, d;
  asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return (a >> 4) & 1;
}
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}
const Choice choices[] = {{&kernels_avx512, has_avx512},
                          {&kernels_avxvnni, has_avxvnni},
                          {&kernels_avx2, has_avx2},
                          {&kernels_plain, [] { return true; }}};
#elif defined(__aarch64__)
bool has_dotprod() {
#if defined(__linux__)
  return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
#else
  return true;  // every Apple processor that runs this
#endif
}
const Choice choices[] = {{&kernels_neon, has_dotprod}, {&kernels_plain, [] { return true; }}};
#else
const Choice choices[] = {{&kernels_plain, [] { return true; }}};
#endif

}  // namespace

const Kernels *kernels_named(const char *name) {
  for (const Choice &c : choices)
    if ((!name || !*name || !strcmp(name, c.kernels->name)) && c.runs()) return c.kernels;
  return nullptr;
}

}  // namespace outpace

OUTPACE_API const char *outpace_paths(void) {
  static char names[64];
  if (!names[0])
    for (const outpace::Choice &c : outpace::choices)
      if (c.runs()) {
        if (names[0]) strcat(names, " ");
        strcat(names, c.kernels->name);
      }
  return names;
}
