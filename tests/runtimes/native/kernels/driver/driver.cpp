// Random models and passes against the kernels' C boundary, without Python: for sanitizers, for
// fuzzing, and for processors that only an emulator has.
//
//   driver SEED MODELS [PASSES]
//
// Every model runs on every path this processor has, valid passes and broken ones alike; all paths
// must give the same bits. The last line is a hash of all results: it is the same everywhere.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <string>
#include <vector>

#include "abi.h"

namespace {

struct Random {  // splitmix64
  uint64_t state;
  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  int below(int n) { return (int)(next() % (uint64_t)n); }
  int between(int a, int b) { return a + below(b - a + 1); }
  float unit() { return (float)(next() >> 40) * 0x1p-24f; }
};

void check(bool good, const char *what) {
  if (good) return;
  fprintf(stderr, "failed: %s (%s)\n", what, outpace_error());
  exit(1);
}

// Random GGUF blocks with sane scales, or plain floats.
struct SourceType {
  int source, weights, bytes;
  std::vector<int> halves;  // offsets of half-precision scales
};
const SourceType types[] = {
    {0, 1, 4, {}},          {2, 32, 18, {0}},       {3, 32, 20, {0, 2}},
    {6, 32, 22, {0}},       {7, 32, 24, {0, 2}},    {8, 32, 34, {0}},
    {12, 256, 144, {0, 2}}, {13, 256, 176, {0, 2}}, {14, 256, 210, {208}},
};

OutpaceMatrix *random_matrix(Random &r, int n, int k) {
  const SourceType *t = &types[0];
  for (int tries = 0; tries < 4; tries++) {
    const SourceType &other = types[r.below(9)];
    if (k % other.weights == 0) t = &other;
  }
  std::vector<uint8_t> data((size_t)n * (k / t->weights) * t->bytes);
  if (t->source == 0) {
    for (size_t i = 0; i < data.size(); i += 4) {
      const float w = r.unit() - 0.5f;
      memcpy(&data[i], &w, 4);
    }
  } else {
    for (uint8_t &b : data) b = (uint8_t)r.next();
    for (size_t block = 0; block < data.size(); block += (size_t)t->bytes)
      for (int at : t->halves) {
        const uint16_t h = (uint16_t)(0x1400 + r.below(0x400) + (at ? r.below(2) * 0x8000 : 0));
        memcpy(&data[block + (size_t)at], &h, 2);
      }
  }
  const int target = t->source == 0 ? r.between(-1, 4) : -1;
  OutpaceMatrix *m = nullptr;
  check(!outpace_pack(data.data(), (int64_t)data.size(), t->source, n, k, target, &m), "pack");
  return m;
}

struct Model {
  OutpaceModel c{};
  std::vector<OutpaceLayer> layers;
  std::vector<std::vector<float>> vectors;
  std::vector<OutpaceMatrix *> matrices;
  const float *cos[2], *sin[2];

  const float *vector(Random &r, int n, float around) {
    vectors.emplace_back((size_t)n);
    for (float &x : vectors.back()) x = around + 0.4f * (r.unit() - 0.5f);
    return vectors.back().data();
  }
  const OutpaceMatrix *matrix(Random &r, int n, int k) {
    matrices.push_back(random_matrix(r, n, k));
    return matrices.back();
  }
  explicit Model(Random &r) {
    const int wide = r.below(4) == 0;
    c.hidden = wide ? 256 : r.between(3, 70);
    c.n_kv_heads = r.between(1, 3);
    c.n_heads = c.n_kv_heads * r.between(1, 5);
    c.head_dim = r.between(2, 40);
    c.ffn = wide ? 256 : r.between(1, 90);
    c.vocab = r.between(2, 120);
    c.n_layers = r.between(1, 3);
    c.activation = r.below(2);
    c.rope_dim = c.head_dim / 2 / 2 * 2;
    c.rope_interleaved = r.below(2);
    c.n_ropes = 2;
    c.max_positions = 600;
    c.page_size = 16 * r.between(1, 5);
    c.kv_type = r.below(3);
    c.fine_rows = r.below(2) ? r.below(32) : 0;
    c.eps = 1e-5f;
    c.embedding_scale = c.logit_scale = 1.0f;
    c.attention_scale = 0.3f;
    c.logit_softcap = r.below(2) ? 5.0f : 0.0f;
    vectors.reserve(100);
    for (int i = 0; i < 2; i++) {
      cos[i] = vector(r, c.max_positions * (c.rope_dim / 2), 0.5f);
      sin[i] = vector(r, c.max_positions * (c.rope_dim / 2), 0.5f);
    }
    for (int i = 0; i < c.n_layers; i++) add_layer(r);
    c.layers = layers.data();
    c.embedding = matrix(r, c.vocab, c.hidden);
    c.head = matrix(r, c.vocab, c.hidden);
    c.norm_final = vector(r, c.hidden, 1.0f);
    c.rope_cos = cos;
    c.rope_sin = sin;
  }
  void add_layer(Random &r) {
    OutpaceLayer l{};
    const int q = c.n_heads * c.head_dim, kv = c.n_kv_heads * c.head_dim;
    l.q = matrix(r, q, c.hidden);
    l.k = matrix(r, kv, c.hidden);
    l.v = matrix(r, kv, c.hidden);
    l.o = matrix(r, c.hidden, q);
    l.gate = matrix(r, c.ffn, c.hidden);
    l.up = matrix(r, c.ffn, c.hidden);
    l.down = matrix(r, c.hidden, c.ffn);
    l.norm_attention = vector(r, c.hidden, 1.0f);
    l.norm_ffn = vector(r, c.hidden, 1.0f);
    if (r.below(2)) l.norm_after_attention = vector(r, c.hidden, 1.0f);
    if (r.below(2)) l.norm_after_ffn = vector(r, c.hidden, 1.0f);
    if (r.below(2)) l.norm_q = vector(r, c.head_dim, 1.0f), l.norm_k = vector(r, c.head_dim, 1.0f);
    if (r.below(2)) l.bias_q = vector(r, q, 0.0f), l.bias_v = vector(r, kv, 0.0f);
    if (r.below(2)) l.bias_o = vector(r, c.hidden, 0.0f);
    l.window = r.below(2) ? r.between(1, 150) : 0;
    l.rope = r.between(-1, 1);
    layers.push_back(l);
  }
  ~Model() {
    for (OutpaceMatrix *m : matrices) outpace_matrix_free(m);
  }
};

// A valid pass over up to three sequences; pages are dealt out of a shuffled deck.
struct Request {
  std::vector<int32_t> tokens, positions, parents, starts{0}, cached, tables, asked, best, ids;
  std::vector<float> logits, top, hidden;
  OutpacePass c{};

  Request(Random &r, const OutpaceModel &m, int n_pages) {
    const int n_sequences = r.between(1, 3);
    std::vector<int> deck((size_t)n_pages);
    for (int i = 0; i < n_pages; i++) deck[(size_t)i] = i;
    for (int i = n_pages - 1; i > 0; i--) std::swap(deck[(size_t)i], deck[(size_t)r.below(i + 1)]);
    c.max_pages = n_pages / 3;
    for (int s = 0; s < n_sequences; s++) {
      cached.push_back(r.below(2) ? r.between(0, 200) : 0);
      const int n = r.below(3) ? r.between(0, 9) : r.between(1, 90), first = (int)tokens.size();
      for (int i = 0; i < n; i++) {
        const int parent = r.below(3) ? i - 1 : r.between(-1, i - 1);
        parents.push_back(parent < 0 ? -1 : first + parent);
        positions.push_back(parent < 0 ? cached.back() : positions[(size_t)(first + parent)] + 1);
        tokens.push_back(r.below(m.vocab));
      }
      starts.push_back((int32_t)tokens.size());
      for (int i = 0; i < c.max_pages; i++) tables.push_back(deck[(size_t)(s * c.max_pages + i)]);
    }
    for (int i = 0; i < (int)tokens.size(); i++)
      if (r.below(2)) asked.push_back(i);
  }
  void point(const OutpaceModel &m, int n_pages, uint8_t *k, uint8_t *v) {
    c.n_rows = (int32_t)tokens.size();
    c.n_sequences = (int32_t)cached.size();
    c.n_asked = (int32_t)asked.size();
    c.top_k = m.vocab < 3 ? m.vocab : 3;
    c.tokens = tokens.data();
    c.positions = positions.data();
    c.parents = parents.data();
    c.starts = starts.data();
    c.n_cached = cached.data();
    c.page_tables = tables.data();
    c.k_pool = k;
    c.v_pool = v;
    c.n_pages = n_pages;
    c.asked = asked.data();
    logits.assign(asked.size() * (size_t)m.vocab + 1, 0.0f);
    best.assign(asked.size() + 1, 0);
    ids.assign(asked.size() * 3 + 1, 0);
    top.assign(asked.size() * 3 + 1, 0.0f);
    c.logits = logits.data();
    c.best_ids = best.data();
    c.top_ids = ids.data();
    c.top_logits = top.data();
  }
  // Break one number, as a buggy caller would.
  void damage(Random &r) {
    std::vector<int32_t> *all[] = {&tokens, &positions, &parents, &starts,
                                   &cached, &tables,    &asked};
    std::vector<int32_t> &one = *all[r.below(7)];
    if (one.empty()) return;
    const int32_t values[] = {-1, -2, 0, 1, 1000, INT32_MAX, INT32_MIN, r.below(300)};
    one[(size_t)r.below((int)one.size())] = values[r.below(8)];
  }
};

uint64_t mix(uint64_t hash, const void *data, size_t n) {
  for (size_t i = 0; i < n; i++) hash = (hash ^ ((const uint8_t *)data)[i]) * 0x100000001b3ull;
  return hash;
}

// What one path makes of one model and these passes.
uint64_t run_path(const Model &model, const char *path, uint64_t seed, int n_passes) {
  Random r{seed};
  OutpaceEngine *engine = nullptr;
  check(!outpace_engine_create(&model.c, r.between(1, 3), path, &engine), "create");
  const int n_pages = 3 * ((290 + model.c.page_size) / model.c.page_size);
  std::vector<uint8_t> k((size_t)outpace_engine_pool_bytes(engine, n_pages)), v(k.size());
  uint64_t hash = 0xcbf29ce484222325ull;
  for (int i = 0; i < n_passes; i++) {
    Request request(r, model.c, n_pages);
    const bool broken = r.below(3) == 0;
    if (broken) request.damage(r);
    request.point(model.c, n_pages, k.data(), v.data());
    const int failed = outpace_engine_pass(engine, &request.c);
    check(broken || !failed || request.tokens.empty(), "pass");
    if (!failed) hash = mix(hash, request.logits.data(), request.logits.size() * 4);
    if (!failed) hash = mix(hash, request.best.data(), request.best.size() * 4);
    const int64_t slots = (int64_t)n_pages * model.c.page_size;
    const int64_t copy[2] = {(int64_t)r.below((int)slots),
                             (int64_t)r.below((int)slots) - r.below(2)};
    outpace_engine_kv_copy(engine, k.data(), v.data(), n_pages, copy, copy + 1, 1);
  }
  outpace_engine_free(engine);
  return hash;
}

}  // namespace

int main(int argc, char **argv) {
  const uint64_t seed = argc > 1 ? strtoull(argv[1], nullptr, 10) : 1;
  const int n_models = argc > 2 ? atoi(argv[2]) : 10, n_passes = argc > 3 ? atoi(argv[3]) : 12;
  uint64_t all = 0;
  for (int i = 0; i < n_models; i++) {
    Random r{seed * 1000003 + (uint64_t)i};
    const Model model(r);
    const uint64_t passes = r.next();
    const std::string paths = outpace_paths();
    const uint64_t plain = run_path(model, "plain", passes, n_passes);
    for (size_t at = 0; at < paths.size();) {
      const size_t end =
          paths.find(' ', at) == std::string::npos ? paths.size() : paths.find(' ', at);
      const std::string path = paths.substr(at, end - at);
      if (path != "plain" && run_path(model, path.c_str(), passes, n_passes) != plain) {
        fprintf(stderr, "model %d: path %s gives other bits than plain\n", i, path.c_str());
        return 1;
      }
      at = end + 1;
    }
    all = mix(all, &plain, 8);
  }
  printf("%016llx\n", (unsigned long long)all);
}
