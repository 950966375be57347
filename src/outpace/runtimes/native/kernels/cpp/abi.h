// The C boundary: what Python describes (matrices, a model, a pass) and the calls it makes.
// Every struct here is mirrored field by field in ../structs.py.
#pragma once
#include <stdint.h>

#if defined(_WIN32)
#define OUTPACE_API extern "C" __declspec(dllexport)
#else
#define OUTPACE_API extern "C" __attribute__((visibility("default")))
#endif

struct OutpaceMatrix;  // packed weights, owned by the library
struct OutpaceEngine;  // a model, its threads and its workspace

struct OutpaceLayer {
  const OutpaceMatrix *q, *k, *v, *o, *gate, *up, *down;
  const float *norm_attention, *norm_ffn;              // [hidden]
  const float *norm_after_attention, *norm_after_ffn;  // [hidden] or null (Gemma)
  const float *norm_q, *norm_k;                        // [head_dim] or null (Qwen3, Gemma 3)
  const float *bias_q, *bias_k, *bias_v, *bias_o;      // or null (Qwen2)
  int32_t window;                                      // keys a row sees, itself included; 0: all
  int32_t rope;                                        // which rope table; -1: none (SmolLM3)
};

struct OutpaceModel {
  int32_t hidden, n_layers, n_heads, n_kv_heads, head_dim, ffn, vocab;
  int32_t activation;        // 0 SiLU, 1 GELU (tanh)
  int32_t rope_dim;          // rotated leading dimensions of a head
  int32_t rope_interleaved;  // 1: pairs (2i, 2i+1); 0: pairs (i, i + rope_dim/2)
  int32_t n_ropes, max_positions;
  int32_t page_size;  // slots of a page, a multiple of 16
  int32_t kv_type;    // 0 fp32, 1 fp16, 2 bf16
  int32_t fine_rows;  // which integer products take rows of 15 bits instead of 8: OUTPACE_FINE_*
  float eps, embedding_scale, attention_scale, logit_scale, logit_softcap;  // softcap 0: none
  const OutpaceMatrix *embedding, *head;
  const float *norm_final;
  const float *const *rope_cos;  // [n_ropes] -> [max_positions][rope_dim/2]
  const float *const *rope_sin;
  const OutpaceLayer *layers;
};

#define OUTPACE_FINE_QKV 1
#define OUTPACE_FINE_O 2
#define OUTPACE_FINE_GATE 4
#define OUTPACE_FINE_DOWN 8
#define OUTPACE_FINE_HEAD 16

struct OutpacePass {
  int32_t n_rows, n_sequences, max_pages, n_asked, n_taps, top_k;
  const int32_t *tokens, *positions, *parents;  // [n_rows]; parent -1: follows the cached text
  const int32_t *starts;                        // [n_sequences + 1]
  const int32_t *n_cached;                      // [n_sequences]
  const int32_t *page_tables;                   // [n_sequences][max_pages]
  void *k_pool, *v_pool;
  int64_t n_pages;
  const int32_t *asked;  // [n_asked] rows
  float *logits;         // [n_asked][vocab] or null
  int32_t *best_ids;     // [n_asked] or null; -1 when no logit is a number
  float *best_logits;    // [n_asked] or null
  int32_t *top_ids;      // [n_asked][top_k] or null, highest first, lowest id first in a tie
  float *top_logits;
  const int32_t
      *taps;        // [n_taps] l: the residual stream entering layer l; n_layers: leaving the last
  float *hidden;    // [n_taps][n_rows][hidden]
  double *profile;  // [OUTPACE_PHASES] or null: seconds of each kind of phase are added
};
// Kinds of phases, in order: embed, norm, qkv, place, attend, round, o, norm_ffn, gate, down, head.
#define OUTPACE_PHASES 11

// A drafting head, from hidden states of the model to guesses; matrices are [outputs, inputs].
struct OutpaceHead {
  int32_t hidden, n_taps, embed_width, inner, root_inner, draft;
  float eps;
  const OutpaceMatrix *embed;                                   // [tokens of the model, embed_width]
  const OutpaceMatrix *root, *root_gate, *root_up, *root_down;  // from n_taps streams
  const OutpaceMatrix *step, *gate, *up, *down;                 // from the state above
  const OutpaceMatrix *out;                                     // [draft, hidden]
};
struct OutpaceHeadEngine;  // a head and its workspace

// Trees to be grown together, best first by the product of the head's probabilities.
struct OutpaceGrowth {
  int32_t n_trees, n_children, stride;    // children looked at per node; nodes there is room for
  const float *hidden;                    // [n_trees][n_taps][hidden]: the last computed row's
  const int32_t *tokens;                  // [n_trees] the token after that row
  const int32_t *max_nodes, *max_depths;  // [n_trees]
  const int32_t *widths;                  // [n_trees] children of a node at most; 1: chains
  const float *worths;                    // [n_trees] less likely paths are left out
  const float *sharpness;                 // [n_trees] logits are multiplied by this
  const int32_t *ids;                     // [draft] the model's token of each draft token
  int32_t *n_found;                       // [n_trees]
  int32_t *guesses, *parents;             // [n_trees][stride], parents first
  float *chances;
};

// Everything returning int32_t: 0, or 1 and outpace_error() says why (per thread).
OUTPACE_API const char *outpace_error(void);
OUTPACE_API int32_t outpace_abi_version(void);
// The paths this processor can run, best first, separated by spaces.
OUTPACE_API const char *outpace_paths(void);

// source: a GGML type number; target: a packed format, or -1 for the one that holds source exactly.
OUTPACE_API int32_t outpace_pack(const void *data, int64_t n_bytes, int32_t source, int64_t n,
                                 int64_t k, int32_t target, OutpaceMatrix **out);
OUTPACE_API void outpace_matrix_free(OutpaceMatrix *matrix);
OUTPACE_API int64_t outpace_matrix_bytes(const OutpaceMatrix *matrix);
OUTPACE_API int32_t outpace_matrix_format(const OutpaceMatrix *matrix);
// The weights a pass multiplies by, as fp32 [count][k], for checks.
OUTPACE_API int32_t outpace_matrix_rows(const OutpaceMatrix *matrix, int64_t first, int64_t count,
                                        float *out);

OUTPACE_API int32_t outpace_engine_create(const OutpaceModel *model, int32_t n_threads,
                                          const char *path, OutpaceEngine **out);
OUTPACE_API void outpace_engine_free(OutpaceEngine *engine);
OUTPACE_API int32_t outpace_engine_pass(OutpaceEngine *engine, const OutpacePass *pass);
OUTPACE_API int32_t outpace_engine_threads(OutpaceEngine *engine, int32_t n_threads);
OUTPACE_API const char *outpace_engine_path(const OutpaceEngine *engine);
// Bytes of each of the two pools for this many pages.
OUTPACE_API int64_t outpace_engine_pool_bytes(const OutpaceEngine *engine, int64_t n_pages);
// slot = page * page_size + offset. All layers; slots are copied in the order given.
OUTPACE_API int32_t outpace_engine_kv_copy(OutpaceEngine *engine, void *k_pool, void *v_pool,
                                           int64_t n_pages, const int64_t *sources,
                                           const int64_t *targets, int64_t n);
// K and V of slots of one layer as fp32 [n][n_kv_heads][head_dim], for checks and export.
OUTPACE_API int32_t outpace_engine_kv_read(OutpaceEngine *engine, const void *k_pool,
                                           const void *v_pool, int64_t n_pages, int32_t layer,
                                           const int64_t *slots, int64_t n, float *k, float *v);
// Seconds to read all packed weights once with this engine's threads: the floor of a pass.
OUTPACE_API double outpace_engine_read_weights(OutpaceEngine *engine);
// One product, rows [n_rows][k] fp32 -> [n_rows][n] fp32, for checks and benchmarks.
OUTPACE_API int32_t outpace_engine_matmul(OutpaceEngine *engine, const OutpaceMatrix *matrix,
                                          const float *rows, int32_t n_rows, int32_t fine,
                                          float *out);
// The head's matrices stay the caller's; it runs on the threads of an engine.
OUTPACE_API int32_t outpace_head_create(const OutpaceHead *head, OutpaceHeadEngine **out);
OUTPACE_API void outpace_head_free(OutpaceHeadEngine *head);
OUTPACE_API int32_t outpace_head_grow(OutpaceEngine *engine, OutpaceHeadEngine *head,
                                      const OutpaceGrowth *growth);
// One step of each row: from [n_rows][n_taps][hidden] (roots) or [n_rows][hidden] to states
// [n_rows][hidden] and logits [n_rows][draft].
OUTPACE_API int32_t outpace_head_rows(OutpaceEngine *engine, OutpaceHeadEngine *head,
                                      int32_t roots, int32_t n_rows, const float *from,
                                      const int32_t *tokens, float *states, float *logits);
