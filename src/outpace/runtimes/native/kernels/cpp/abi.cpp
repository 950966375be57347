// The engine's calls: abi.h made of the other files.
#include "abi.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <new>

#include "cache.h"
#include "halves.h"
#include "model.h"

namespace outpace {
namespace {

thread_local char reason[512];

Job job_of(OutpaceEngine &e, const OutpacePass *pass, const Plan *plan) {
  return Job{&e.model, pass, plan, &e.workspace.work, e.shape, e.pool.get(), e.pool->size()};
}

int32_t adopt(OutpaceEngine &e, const OutpaceModel &m) {
  e.model = m;
  e.layers.assign(m.layers, m.layers + m.n_layers);
  const int64_t q = (int64_t)m.n_heads * m.head_dim, kv = (int64_t)m.n_kv_heads * m.head_dim;
  Vectors &v = e.vectors;
  for (OutpaceLayer &l : e.layers) {
    l.norm_attention = v.copy(l.norm_attention, m.hidden);
    l.norm_ffn = v.copy(l.norm_ffn, m.hidden);
    l.norm_after_attention = v.copy(l.norm_after_attention, m.hidden);
    l.norm_after_ffn = v.copy(l.norm_after_ffn, m.hidden);
    l.norm_q = v.copy(l.norm_q, m.head_dim);
    l.norm_k = v.copy(l.norm_k, m.head_dim);
    l.bias_q = v.copy(l.bias_q, q);
    l.bias_k = v.copy(l.bias_k, kv);
    l.bias_v = v.copy(l.bias_v, kv);
    l.bias_o = v.copy(l.bias_o, m.hidden);
  }
  const int64_t turns = (int64_t)m.max_positions * (m.rope_dim / 2);
  for (int i = 0; i < m.n_ropes; i++) {
    e.cos.push_back(v.copy(m.rope_cos[i], turns));
    e.sin.push_back(v.copy(m.rope_sin[i], turns));
  }
  e.model.norm_final = v.copy(m.norm_final, m.hidden);
  e.model.layers = e.layers.data();
  e.model.rope_cos = e.cos.data();
  e.model.rope_sin = e.sin.data();
  return v.failed() ? fail("out of memory for the model's vectors") : 0;
}

struct Run {
  const Kernels *kernels;
  Job job;
};

// What every thread may rely on when it comes, however late.
void begin(const Work &w, const OutpacePass &p, int n_threads) {
  for (int64_t i = 0; i < (n_threads + 1) * w.n_phases; i++)
    w.counters[i].store(0, std::memory_order_relaxed);
  if (!p.best_ids) return;
  for (int64_t i = 0; i < (int64_t)n_threads * p.n_asked; i++) {
    w.best_ids[i] = NOBODY;
    w.best_logits[i] = -__builtin_inff();
  }
}

double now_s() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

}  // namespace

void survive_fork(OutpaceEngine &e) {
  if (e.process == (int64_t)getpid()) return;
  const int n = e.pool->size();
  e.pool.release()->abandon();
  e.lock.release();
  e.lock = std::make_unique<std::mutex>();
  e.pool = std::make_unique<Pool>(n);
  e.process = (int64_t)getpid();
}

int32_t fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  return 1;
}

}  // namespace outpace

using namespace outpace;

OUTPACE_API const char *outpace_error(void) { return reason; }
OUTPACE_API int32_t outpace_abi_version(void) { return 3; }

OUTPACE_API int32_t outpace_engine_create(const OutpaceModel *model, int32_t n_threads,
                                          const char *path, OutpaceEngine **out) try {
  *out = nullptr;
  if (check_model(*model)) return 1;
  if (n_threads < 1 || n_threads > 256) return fail("%d threads; 1 to 256 fit", n_threads);
  auto e = std::make_unique<OutpaceEngine>();
  e->kernels = kernels_named(path);
  if (!e->kernels) return fail("no path '%s' here; this processor runs: %s", path, outpace_paths());
  if (adopt(*e, *model)) return 1;
  e->shape = shape_of(e->model);
  e->planner = planner_new();
  e->pool = std::make_unique<Pool>(n_threads);
  e->lock = std::make_unique<std::mutex>();
  e->process = (int64_t)getpid();
  *out = e.release();
  return 0;
} catch (const std::exception &error) {
  return fail("%s", error.what());
}

OUTPACE_API void outpace_engine_free(OutpaceEngine *e) {
  if (!e) return;
  if (e->process != (int64_t)getpid()) e->pool.release()->abandon();
  delete e;
}

OUTPACE_API int32_t outpace_engine_pass(OutpaceEngine *e, const OutpacePass *pass) try {
  survive_fork(*e);
  const std::lock_guard<std::mutex> hold(*e->lock);
  if (!pass->k_pool || !pass->v_pool) return fail("a pass needs both pools");
  Plan plan;
  if (plan_pass(e->planner, e->model, e->shape, *pass, e->pool->size(), &plan)) return 1;
  if (e->workspace.fit(e->model, e->shape, *pass, plan, e->pool->size())) return 1;
  Run run{e->kernels, job_of(*e, pass, &plan)};
  begin(e->workspace.work, *pass, e->pool->size());
  e->pool->gather(
      [](void *p, int thread) {
        const Run &r = *(const Run *)p;
        r.kernels->pass(r.job, thread);
      },
      &run);
  return 0;
} catch (const std::exception &error) {
  return fail("%s", error.what());
}

OUTPACE_API int32_t outpace_engine_threads(OutpaceEngine *e, int32_t n_threads) try {
  if (n_threads < 1 || n_threads > 256) return fail("%d threads; 1 to 256 fit", n_threads);
  survive_fork(*e);
  const std::lock_guard<std::mutex> hold(*e->lock);
  if (n_threads != e->pool->size()) e->pool = std::make_unique<Pool>(n_threads);
  return 0;
} catch (const std::exception &error) {
  return fail("%s", error.what());
}

OUTPACE_API const char *outpace_engine_path(const OutpaceEngine *e) { return e->kernels->name; }

OUTPACE_API int64_t outpace_engine_pool_bytes(const OutpaceEngine *e, int64_t n_pages) {
  return n_pages * e->shape.page_elements * kv_element_bytes(e->model.kv_type) * e->model.n_layers;
}

OUTPACE_API double outpace_engine_read_weights(OutpaceEngine *e) {
  survive_fork(*e);
  const std::lock_guard<std::mutex> hold(*e->lock);
  struct Reading {
    OutpaceEngine *engine;
    uint64_t sums[256];
  } reading{e, {}};
  const double start = now_s();
  e->pool->run(
      [](void *p, int thread) {
        Reading &r = *(Reading *)p;
        const int threads = r.engine->pool->size();
        uint64_t sum = 0;
        const auto read = [&](const OutpaceMatrix *m) {
          const int64_t lines = (int64_t)m->bytes / 64;
          const uint64_t *w = (const uint64_t *)m->data;
          for (int64_t i = lines * thread / threads; i < lines * (thread + 1) / threads; i++) {
            __builtin_prefetch(w + 8 * i + 768);
            sum += w[8 * i];
          }
        };
        for (const OutpaceLayer &l : r.engine->layers)
          for (const OutpaceMatrix *m : {l.q, l.k, l.v, l.o, l.gate, l.up, l.down}) read(m);
        read(r.engine->model.head);
        r.sums[thread] = sum;
      },
      &reading);
  return now_s() - start;
}

OUTPACE_API int32_t outpace_engine_matmul(OutpaceEngine *e, const OutpaceMatrix *m,
                                          const float *rows, int32_t n_rows, int32_t fine,
                                          float *out) {
  if (n_rows < 1) return fail("%d rows", n_rows);
  const FloatMode mode;
  Rows x;
  x.k = (int64_t)m->n_steps * STEP;
  x.n_blocks = x.k / BLOCK;
  uint8_t *base =
      (uint8_t *)take_memory((size_t)n_rows * (x.k * 6 + x.n_blocks * sizeof(BlockMeta)));
  if (!base) return fail("out of memory for %d rows", n_rows);
  x.f = (float *)base;
  x.meta = (BlockMeta *)(base + n_rows * x.k * 4);
  x.q = (int8_t *)(x.meta + n_rows * x.n_blocks);
  x.low = x.q + n_rows * x.k;
  for (int64_t r = 0; r < n_rows; r++) memcpy(x.f + r * x.k, rows + r * m->k, (size_t)m->k * 4);
  e->kernels->product(x, *m, n_rows, fine != 0, out);
  give_memory(base);
  return 0;
}
