// A drafting head at work: rows to advance, trees being grown. Plain data and the choosing of
// nodes, which is the same on every instruction set; head.cpp has the choosing, advance.h the rest.
#pragma once
#include <vector>

#include "engine.h"

namespace outpace {

constexpr int HEAD_ROWS = 64;      // rows advanced together at most
constexpr int HEAD_CHILDREN = 16;  // children kept of a node
constexpr int HEAD_PHASES = 24;    // of an advance, at most

// Rows being advanced: all from hidden states (roots), or all from states.
struct HeadRows {
  int32_t n_rows = 0;
  bool roots = false;
  const float *from[HEAD_ROWS];  // taps of a root, or the state above
  int32_t tokens[HEAD_ROWS];
  float sharpness[HEAD_ROWS];  // what logits are multiplied by before they become a law
  int32_t n_children = 0;      // likeliest tokens wanted of each row; 0: only logits
  int32_t ids[HEAD_ROWS][HEAD_CHILDREN];
  float law[HEAD_ROWS][HEAD_CHILDREN];
};

// Buffers of HEAD_ROWS rows. u: the states [rows][hidden]. logits: [rows][logits_stride].
struct HeadWork {
  Rows root, step, normed, gated, root_gated;
  float *u, *logits, *ones, *embedded;  // embedded: [rows][embed_stride]
  int64_t logits_stride, embed_stride;
};

class Forest;

struct HeadJob {
  Job job;  // counters, threads and pool; no model and no pass
  const OutpaceHead *head;
  HeadWork *work;
  HeadRows *rows;
  Forest *forest;  // null: rows are advanced once, as they stand
};

// Trees growing best first: what to expand next, and what came of it.
class Forest {
 public:
  Forest(const OutpaceHead &head, const OutpaceGrowth &growth);
  // Fill `rows` with the nodes to expand next; none left: n_rows is 0.
  void plan(HeadRows &rows);
  // Take the children of the rows, whose states are in u.
  void harvest(const HeadRows &rows, const float *u);
  // Write the trees out.
  void finish() const;

 private:
  struct Node {
    float chance;
    int32_t parent, depth, token;  // parent: of `nodes`; -1 = the root
    int32_t state;                 // row of `states`, -1 = not expanded
  };
  struct Tree {
    std::vector<Node> nodes;
    std::vector<int32_t> best;  // nodes by chance, at most max_nodes
    int32_t root_state = -1;
  };
  void rank(int tree);
  bool worthwhile(int tree, int node) const;

  const OutpaceHead &head_;
  const OutpaceGrowth &growth_;
  std::vector<Tree> trees_;
  std::vector<float> states_;
  int32_t n_states_ = 0, first_ = 0;
  int32_t tree_of_[HEAD_ROWS], node_of_[HEAD_ROWS];
};

}  // namespace outpace

// A head's library copy: its description, and its workspace.
struct OutpaceHeadEngine {
  OutpaceHead head;
  outpace::HeadWork work{};
  void *memory = nullptr;
  std::atomic<int32_t> *counters = nullptr;
  ~OutpaceHeadEngine();
};
