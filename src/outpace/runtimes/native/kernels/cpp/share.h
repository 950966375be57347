// How the threads of a pass share a phase: each owns a slice, and helps with others' when done.
#pragma once
#include "engine.h"
#include "pool.h"

#include <time.h>

namespace {

enum Phase { EMBED, NORM, QKV, PLACE, ATTEND, ROUND, OUT, NORM_FFN, GATE, DOWN, HEAD };

inline double now_s() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// A thread's place in a pass.
struct Place {
  const outpace::Job &job;
  int thread;
  int64_t phase;
  double since;  // when the current phase began, if anyone wants to know

  // What was done since the last mark was of this kind.
  void mark(Phase kind) {
    double *profile = job.pass->profile;
    if (!profile || thread) return;
    const double now = now_s();
    profile[kind] += now - since;
    since = now;
  }
  uint8_t *scratch() const { return job.work->scratch + thread * job.work->scratch_bytes; }
};

// Do items [0, n), grain at a time, then wait until all are done, whoever did them: a thread that
// comes late finds its items taken and goes on. Which thread does an item never matters to its
// result; a thread takes its own slice first so that memory is read in order.
template <class F>
inline void share(Place &at, int64_t n, int64_t grain, F &&work) {
  const outpace::Work &w = *at.job.work;
  const int threads = at.job.n_threads;
  if (threads == 1) {
    for (int64_t i = 0; i < n; i++) work(i);
    return;
  }
  int32_t n_done = 0;
  for (int t = 0; t < threads; t++) {
    const int owner = (at.thread + t) % threads;
    const int64_t first = n * owner / threads, last = n * (owner + 1) / threads;
    std::atomic<int32_t> &next = w.counters[owner * w.n_phases + at.phase];
    for (;;) {
      // Looking before taking keeps idle threads from dragging the line away from its owner.
      if (first + next.load(std::memory_order_relaxed) >= last) break;
      const int64_t from = first + next.fetch_add((int32_t)grain, std::memory_order_relaxed);
      const int64_t to = from + grain < last ? from + grain : last;
      if (from >= last) break;
      for (int64_t i = from; i < to; i++) work(i);
      n_done += (int32_t)(to - from);
      if (to >= last) break;
    }
  }
  std::atomic<int32_t> &done = w.counters[threads * w.n_phases + at.phase++];
  if (n_done && done.fetch_add(n_done, std::memory_order_acq_rel) + n_done == n) done.notify_all();
  outpace::wait_until(done, (int32_t)n);
}

}  // namespace
