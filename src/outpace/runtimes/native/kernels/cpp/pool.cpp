// The thread pool: see pool.h.
#include "pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace outpace {
namespace {

inline void rest() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

constexpr int SPINS_IN_PASS = 4000;  // some 50 µs
constexpr int SPINS_BETWEEN = 8000;  // a decoding loop comes back sooner than this

void wait_while(std::atomic<int> &value, int old, int spins) {
  for (int i = 0; i < spins; i++) {
    if (value.load(std::memory_order_acquire) != old) return;
    rest();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old);
}

}  // namespace

void wait_until(std::atomic<int32_t> &count, int32_t n) {
  for (int i = 0; i < SPINS_IN_PASS; i++) {
    if (count.load(std::memory_order_acquire) == n) return;
    rest();
  }
  for (int32_t now; (now = count.load(std::memory_order_acquire)) != n;) count.wait(now);
}

FloatMode::FloatMode() {
#if defined(__x86_64__)
  saved_ = _mm_getcsr();
  _mm_setcsr(0x1f80);
#elif defined(__aarch64__)
  asm volatile("mrs %0, fpcr" : "=r"(saved_));
  asm volatile("msr fpcr, %0" ::"r"((uint64_t)0));
#else
  saved_ = 0;
#endif
}

FloatMode::~FloatMode() {
#if defined(__x86_64__)
  _mm_setcsr((unsigned)saved_);
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" ::"r"(saved_));
#endif
}

Pool::Pool(int n_threads) : n_(n_threads) {
  for (int i = 1; i < n_; i++) threads_.emplace_back([this, i] { live(i); });
}

Pool::~Pool() {
  stop_.store(true);
  generation_.fetch_add(1);
  generation_.notify_all();
  for (auto &t : threads_)
    if (t.joinable()) t.join();
}

void Pool::abandon() {
  for (auto &t : threads_) {
    // The handle names a thread that does not exist here; it must be neither joined nor destroyed.
    new std::thread(static_cast<std::thread &&>(t));
  }
  threads_.clear();
}

void Pool::live(int thread) {
  FloatMode mode;
  int seen = 0;
  for (;;) {
    wait_while(generation_, seen, SPINS_BETWEEN);
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load()) return;
    // Say so first, look then: either this thread sees that the job is over, or the caller sees it.
    inside_.fetch_add(1);
    if (open_.load() == seen) {
      joined_.fetch_add(1);
      joined_.notify_all();
      work_(argument_, thread);
    }
    if (inside_.fetch_sub(1) == 1) inside_.notify_all();
  }
}

void Pool::call(void (*work)(void *, int), void *argument, int least) {
  FloatMode mode;
  if (n_ == 1) return work(argument, 0);
  work_ = work;
  argument_ = argument;
  joined_.store(0);
  open_.store(generation_.load(std::memory_order_relaxed) + 1);
  generation_.fetch_add(1);
  generation_.notify_all();
  work(argument, 0);
  if (least) wait_until(joined_, least);
  open_.store(-1);
  wait_until(inside_, 0);
}

void Pool::barrier() {
  if (n_ == 1) return;
  const int phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == n_) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.fetch_add(1, std::memory_order_seq_cst);
    phase_.notify_all();
  } else {
    wait_while(phase_, phase, SPINS_IN_PASS);
  }
}

}  // namespace outpace
