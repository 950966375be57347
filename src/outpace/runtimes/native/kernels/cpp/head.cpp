// Drafting heads: their description, the choosing of nodes, and the calls.
#include "head.h"

#include <math.h>
#include <string.h>

#include <algorithm>
#include <memory>

#include "model.h"

namespace outpace {
namespace {

// The best child is rarely surer than this: a node whose children cannot be worth a row stays a
// leaf.
constexpr float SUREST_CHILD = 0.97f;

bool fits(const OutpaceMatrix *m, int64_t n, int64_t k, const char *name) {
  if (m && m->n == n && m->k == k) return true;
  fail("the head's matrix '%s' must be %lld x %lld", name, (long long)n, (long long)k);
  return false;
}

int32_t check_head(const OutpaceHead &h) {
  for (int32_t width : {h.hidden, h.embed_width, h.inner, h.root_inner})
    if (width < 32 || width % 32 || width > (1 << 16))
      return fail("a head width of %d; multiples of 32 up to 65536 fit", width);
  if (h.n_taps < 1 || h.n_taps > 64 || h.draft < 1 || !h.embed || h.embed->k != h.embed_width)
    return fail("a head needs taps, an embedding of its width and tokens to guess");
  const int64_t d = h.hidden, wide = d * h.n_taps + h.embed_width;
  const bool all = fits(h.root, d, wide, "root") && fits(h.step, d, d + h.embed_width, "step") &&
                   fits(h.root_gate, h.root_inner, d, "root_gate") &&
                   fits(h.root_up, h.root_inner, d, "root_up") &&
                   fits(h.root_down, d, h.root_inner, "root_down") &&
                   fits(h.gate, h.inner, d, "gate") && fits(h.up, h.inner, d, "up") &&
                   fits(h.down, d, h.inner, "down") && fits(h.out, h.draft, d, "out");
  return all ? 0 : 1;
}

// Cuts one zeroed piece of memory into buffers; with no memory it only counts.
struct Cutter {
  uint8_t *memory;
  size_t used = 0;
  template <class T>
  T *cut(int64_t count) {
    T *at = (T *)(memory + used);
    used += ((size_t)count * sizeof(T) + 63) / 64 * 64;
    return memory ? at : nullptr;
  }
  void rows(Rows &to, int64_t width) {
    to.k = round_up(width, STEP);
    to.n_blocks = to.k / BLOCK;
    to.f = cut<float>(HEAD_ROWS * to.k);
    to.meta = cut<BlockMeta>(HEAD_ROWS * to.n_blocks);
    to.q = cut<int8_t>(HEAD_ROWS * to.k);
    to.low = cut<int8_t>(HEAD_ROWS * to.k);
  }
};

size_t lay_out(OutpaceHeadEngine &e, uint8_t *memory) {
  const OutpaceHead &h = e.head;
  HeadWork &w = e.work;
  Cutter cutter{memory};
  cutter.rows(w.root, (int64_t)h.hidden * h.n_taps + h.embed_width);
  cutter.rows(w.step, (int64_t)h.hidden + h.embed_width);
  cutter.rows(w.normed, h.hidden);
  cutter.rows(w.gated, h.inner);
  cutter.rows(w.root_gated, h.root_inner);
  w.u = cutter.cut<float>((int64_t)HEAD_ROWS * h.hidden);
  w.logits_stride = (int64_t)h.out->n_tiles * LANES + LANES;
  w.logits = cutter.cut<float>(HEAD_ROWS * w.logits_stride);
  w.ones = cutter.cut<float>(h.hidden);
  w.embed_stride = round_up(h.embed_width, STEP);
  w.embedded = cutter.cut<float>(HEAD_ROWS * w.embed_stride);
  e.counters = cutter.cut<std::atomic<int32_t>>(257 * HEAD_PHASES);
  return cutter.used;
}

const OutpacePass NO_PASS{};

int32_t run(OutpaceEngine &engine, OutpaceHeadEngine &e, HeadRows &rows, Forest *forest) {
  struct Call {
    const Kernels *kernels;
    HeadJob job;
  };
  Work shared{};
  shared.counters = e.counters;
  shared.n_phases = HEAD_PHASES;
  Call call{engine.kernels, {}};
  call.job.job = Job{nullptr, &NO_PASS, nullptr, &shared, {}, engine.pool.get(), engine.pool->size()};
  call.job.head = &e.head;
  call.job.work = &e.work;
  call.job.rows = &rows;
  call.job.forest = forest;
  engine.pool->run(
      [](void *p, int thread) {
        const Call &c = *(const Call *)p;
        c.kernels->head(c.job, thread);
      },
      &call);
  return 0;
}

}  // namespace

Forest::Forest(const OutpaceHead &head, const OutpaceGrowth &growth)
    : head_(head), growth_(growth), trees_((size_t)growth.n_trees) {}

bool Forest::worthwhile(int tree, int node) const {
  const Node &n = trees_[(size_t)tree].nodes[(size_t)node];
  return n.state < 0 && n.depth < growth_.max_depths[tree] &&
         n.chance * SUREST_CHILD >= growth_.worths[tree];
}

void Forest::rank(int tree) {
  Tree &t = trees_[(size_t)tree];
  t.best.resize(t.nodes.size());
  for (size_t i = 0; i < t.nodes.size(); i++) t.best[i] = (int32_t)i;
  // Parents were made before their children, so among equals they stay before them.
  std::stable_sort(t.best.begin(), t.best.end(), [&](int32_t a, int32_t b) {
    return t.nodes[(size_t)a].chance > t.nodes[(size_t)b].chance;
  });
  const size_t most = (size_t)growth_.max_nodes[tree];
  if (t.best.size() > most) t.best.resize(most);
}

void Forest::plan(HeadRows &rows) {
  rows.n_rows = 0;
  rows.n_children = std::min(growth_.n_children, (int32_t)HEAD_CHILDREN);
  rows.roots = first_ < growth_.n_trees;
  const auto add = [&](int tree, int node, const float *from, int32_t token) {
    const int r = rows.n_rows++;
    rows.from[r] = from;
    rows.tokens[r] = token;
    rows.sharpness[r] = growth_.sharpness[tree];
    tree_of_[r] = tree;
    node_of_[r] = node;
  };
  if (rows.roots) {
    const int64_t width = (int64_t)head_.hidden * head_.n_taps;
    while (first_ < growth_.n_trees && rows.n_rows < HEAD_ROWS) {
      if (growth_.max_nodes[first_] > 0 && growth_.max_depths[first_] > 0)
        add(first_, -1, growth_.hidden + first_ * width, growth_.tokens[first_]);
      first_++;
    }
    if (rows.n_rows) return;
    rows.roots = false;
  }
  for (int t = 0; t < growth_.n_trees; t++)
    for (int32_t node : trees_[(size_t)t].best) {
      if (rows.n_rows == HEAD_ROWS) return;
      if (!worthwhile(t, node)) continue;
      const Node &n = trees_[(size_t)t].nodes[(size_t)node];
      const Tree &tree = trees_[(size_t)t];
      const int32_t above = n.parent < 0 ? tree.root_state : tree.nodes[(size_t)n.parent].state;
      add(t, node, states_.data() + (int64_t)above * head_.hidden, growth_.ids[n.token]);
    }
}

void Forest::harvest(const HeadRows &rows, const float *u) {
  for (int r = 0; r < rows.n_rows; r++) {
    const int tree = tree_of_[r], at = node_of_[r];
    Tree &t = trees_[(size_t)tree];
    const float above = at < 0 ? 1.0f : t.nodes[(size_t)at].chance;
    const int depth = at < 0 ? 1 : t.nodes[(size_t)at].depth + 1;
    (at < 0 ? t.root_state : t.nodes[(size_t)at].state) = n_states_++;
    states_.insert(states_.end(), u + (int64_t)r * head_.hidden,
                   u + ((int64_t)r + 1) * head_.hidden);
    const int width = std::min(rows.n_children, growth_.widths[tree]);
    for (int i = 0; i < width && rows.ids[r][i] >= 0; i++) {
      const float chance = above * rows.law[r][i];
      if (!(chance >= growth_.worths[tree])) break;
      t.nodes.push_back({chance, at, depth, rows.ids[r][i], -1});
    }
  }
  for (int t = 0; t < growth_.n_trees; t++) rank(t);
}

void Forest::finish() const {
  for (int t = 0; t < growth_.n_trees; t++) {
    const Tree &tree = trees_[(size_t)t];
    std::vector<int32_t> place(tree.nodes.size(), -1);
    const int64_t row = (int64_t)t * growth_.stride;
    growth_.n_found[t] = (int32_t)tree.best.size();
    for (size_t i = 0; i < tree.best.size(); i++) {
      const Node &n = tree.nodes[(size_t)tree.best[i]];
      place[(size_t)tree.best[i]] = (int32_t)i;
      growth_.guesses[row + (int64_t)i] = growth_.ids[n.token];
      growth_.parents[row + (int64_t)i] = n.parent < 0 ? -1 : place[(size_t)n.parent];
      growth_.chances[row + (int64_t)i] = n.chance;
    }
  }
}

}  // namespace outpace

using namespace outpace;

OutpaceHeadEngine::~OutpaceHeadEngine() { give_memory(memory); }

OUTPACE_API int32_t outpace_head_create(const OutpaceHead *head, OutpaceHeadEngine **out) try {
  *out = nullptr;
  if (check_head(*head)) return 1;
  auto e = std::make_unique<OutpaceHeadEngine>();
  e->head = *head;
  const size_t bytes = lay_out(*e, nullptr);
  e->memory = take_memory(bytes);
  if (!e->memory) return fail("out of memory for the head's rows");
  lay_out(*e, (uint8_t *)e->memory);
  for (int i = 0; i < head->hidden; i++) e->work.ones[i] = 1.0f;
  *out = e.release();
  return 0;
} catch (const std::exception &error) {
  return fail("%s", error.what());
}

OUTPACE_API void outpace_head_free(OutpaceHeadEngine *head) { delete head; }

OUTPACE_API int32_t outpace_head_grow(OutpaceEngine *engine, OutpaceHeadEngine *e,
                                      const OutpaceGrowth *growth) try {
  for (int t = 0; t < growth->n_trees; t++)
    if (growth->tokens[t] < 0 || growth->tokens[t] >= e->head.embed->n ||
        growth->max_nodes[t] > growth->stride)
      return fail("tree %d: token %d, %d nodes", t, growth->tokens[t], growth->max_nodes[t]);
  survive_fork(*engine);
  const std::lock_guard<std::mutex> hold(*engine->lock);
  Forest forest(e->head, *growth);
  HeadRows rows;
  if (run(*engine, *e, rows, &forest)) return 1;
  forest.finish();
  return 0;
} catch (const std::exception &error) {
  return fail("%s", error.what());
}

OUTPACE_API int32_t outpace_head_rows(OutpaceEngine *engine, OutpaceHeadEngine *e, int32_t roots,
                                      int32_t n_rows, const float *from, const int32_t *tokens,
                                      float *states, float *logits) try {
  survive_fork(*engine);
  const std::lock_guard<std::mutex> hold(*engine->lock);
  const OutpaceHead &h = e->head;
  const int64_t width = roots ? (int64_t)h.hidden * h.n_taps : h.hidden;
  for (int32_t first = 0; first < n_rows; first += HEAD_ROWS) {
    HeadRows rows;
    rows.roots = roots != 0;
    rows.n_rows = std::min(n_rows - first, (int32_t)HEAD_ROWS);
    for (int r = 0; r < rows.n_rows; r++) {
      const int32_t token = tokens[first + r];
      if (token < 0 || token >= h.embed->n) return fail("row %d has token %d", first + r, token);
      rows.from[r] = from + (first + r) * width;
      rows.tokens[r] = token;
    }
    if (run(*engine, *e, rows, nullptr)) return 1;
    memcpy(states + (int64_t)first * h.hidden, e->work.u,
           sizeof(float) * (size_t)(rows.n_rows * h.hidden));
    for (int r = 0; r < rows.n_rows; r++)
      memcpy(logits + (int64_t)(first + r) * h.draft, e->work.logits + r * e->work.logits_stride,
             sizeof(float) * (size_t)h.draft);
  }
  return 0;
} catch (const std::exception &error) {
  return fail("%s", error.what());
}
