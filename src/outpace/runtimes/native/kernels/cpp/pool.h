// Threads that live as long as an engine: they spin a little, then sleep.
//
// The caller's thread is number 0 and works too. Waiting spins first, because a pass has hundreds
// of short phases and waking a sleeper costs more than a phase; then it sleeps, because on a busy
// machine the thread waited for may not be running. For the same reason work that is taken item by
// item is asked of whoever is there (`gather`): a thread that the system does not let run holds up
// nobody, except by the one item it may have in hand.
#pragma once
#include <stdint.h>

#include <atomic>
#include <thread>
#include <vector>

namespace outpace {

class Pool {
 public:
  explicit Pool(int n_threads);
  ~Pool();
  Pool(const Pool &) = delete;
  Pool &operator=(const Pool &) = delete;

  int size() const { return n_; }
  // Call work(argument, thread) on every thread, and return when all have returned.
  void run(void (*work)(void *, int), void *argument) { call(work, argument, n_ - 1); }
  // The same on thread 0 and on those that come before it is done; `barrier` is not for them.
  void gather(void (*work)(void *, int), void *argument) { call(work, argument, 0); }
  // Wait until every thread of the pool is here. Only inside run.
  void barrier();
  // In the child of a fork the threads are gone: forget them without waiting for them.
  void abandon();

 private:
  void live(int thread);
  void call(void (*work)(void *, int), void *argument, int least);

  const int n_;
  std::vector<std::thread> threads_;
  void (*work_)(void *, int) = nullptr;
  void *argument_ = nullptr;
  alignas(64) std::atomic<int> generation_{0};  // a new job, or the end, is announced here
  std::atomic<int> open_{-1};                   // the job that may be joined now
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<int> joined_{0};
  std::atomic<int> inside_{0};
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<int> phase_{0};
};

// Wait until the count is n; whoever makes it n wakes those that wait.
void wait_until(std::atomic<int32_t> &count, int32_t n);

// Sets this thread's floating-point mode to the default (round to nearest, denormals kept) and
// restores it: the host program may flush denormals, which would change bits.
class FloatMode {
 public:
  FloatMode();
  ~FloatMode();

 private:
  uint64_t saved_;
};

}  // namespace outpace
