#pragma once
// Every named point of one layer for one token of a prompt.
//
// Tensors, F32, in the order of the pass (H heads, G KV heads, d head size; shapes in brackets):
//   pre_layer_hidden    [hidden]  what comes into the layer
//   post_input_norm     [hidden]
//   q_pre_normed        [H, d]    after the projection
//   q_normed            [H, d]    after the norm of the heads
//   q_rotated           [H, d]    as attention reads it
//   k_pre_normed k_normed k_cached v_cached   [G, d]   the same, and what goes into the cache; only
//                                 of layers with K and V of their own
//   sdpa_out            [H, d]    attention's result
//   attn_out_pre_resid  [hidden]  after the output projection and its norm
//   residual            [hidden]  the sum of that and pre_layer_hidden
//   router_logits [n_experts], router_choice and router_weights [n_used]   of a mixture of experts:
//                                 ids in the router's order and what their outputs are scaled with
//   per_layer_input     [ple_dim]  where the model has them
//   matmul_input.NAME   [cols]    what blk.LAYER.NAME is multiplied with (not of experts)
//   l_out               [hidden]  what the layer hands on
//   k_cache_upto v_cache_upto   [G, n, d]   the stored rows, decoded, that the token attends to:
//                                 its own last; of the donor layer where K and V are shared
// and on request the norm weights and scales as the kernels see them:
//   weights.attn_norm, weights.q_norm, ...    named as in GGUF files

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/cache_rows.h"
#include "engine/engine.h"
#include "safetensors/named_values.h"

namespace hf2q {

struct TraceOptions {
  uint32_t layer = 0;
  uint32_t token = 0;  // position in the prompt
  bool weights = false;
  std::vector<uint32_t> cache_layers;  // whose stored rows come along, as cache_rows() gives them
};

struct Trace {
  std::vector<NamedValues> values;
  CacheRows cache;
};

// Runs the prompt up to the token. kInvalidArgument: a layer or token that is not there, and as
// read_prompt() and cache_rows().
Result<Trace> trace(Engine& engine, std::span<const int32_t> ids, const TraceOptions& options);

// All in one safetensors file; the description of the rows, if there are any, is its metadata
// "cache". Errors as write_safetensors().
Status write_trace(const std::string& path, const Trace& trace);

}  // namespace hf2q
