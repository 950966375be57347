// An engine: the library's own copy of a model's description, its threads and workspace.
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "engine.h"
#include "pool.h"

struct OutpaceEngine;

namespace outpace {

// Float arrays copied into memory padded with zeros to a multiple of STEP.
class Vectors {
 public:
  ~Vectors() {
    for (void *p : owned_) give_memory(p);
  }
  const float *copy(const float *from, int64_t n);
  bool failed() const { return failed_; }

 private:
  std::vector<void *> owned_;
  bool failed_ = false;
};

// Buffers of a pass, grown when a pass needs more and never shrunk.
class Workspace {
 public:
  ~Workspace();
  // 0, or 1 with the reason in outpace_error.
  int32_t fit(const OutpaceModel &m, const Shape &shape, const OutpacePass &p, const Plan &plan,
              int n_threads);
  Work work{};

 private:
  struct Piece {
    void *memory = nullptr;
    int64_t bytes = 0;
  };
  enum {
    X,
    Y,
    QKV,
    LOGITS,
    NORMED,
    ATTENDED,
    GATED,
    FINAL,
    PARTIALS,
    ARRIVALS,
    BEST_IDS,
    BEST_LOGITS,
    COUNTERS,
    SCRATCH,
    N_PIECES
  };
  template <class T>
  bool grow(int piece, int64_t count, T **to);
  bool grow_rows(int piece, int64_t n_rows, int64_t k, Rows *to);
  Piece pieces_[N_PIECES];
};

// After a fork the pool's threads, and perhaps the owner of the lock, are gone: start anew.
void survive_fork(OutpaceEngine &e);
// Refuses, by name, what the kernels cannot run.
int32_t check_model(const OutpaceModel &m);
Shape shape_of(const OutpaceModel &m);

}  // namespace outpace

struct OutpaceEngine {
  OutpaceModel model;
  std::vector<OutpaceLayer> layers;
  std::vector<const float *> cos, sin;
  outpace::Vectors vectors;
  outpace::Shape shape;
  outpace::Workspace workspace;
  outpace::Planner *planner = nullptr;
  const outpace::Kernels *kernels = nullptr;
  std::unique_ptr<outpace::Pool> pool;
  std::unique_ptr<std::mutex> lock;
  int64_t process = 0;  // that made the pool
  ~OutpaceEngine() { outpace::planner_free(planner); }
};
