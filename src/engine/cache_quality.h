#pragma once
// What the format of the cache costs: one model with two caches reads one text.
//
//   cosine of a layer     mean over the rows of <u, v> / (|u| |v|), u and v the results of
//   attention
//                         (all heads) with cache a and cache b
//   router flips          rows of a mixture of experts, of all layers, whose set of experts differs
//
// Both run behind their own earlier layers, so differences add up from layer to layer.

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/divergence.h"
#include "engine/engine.h"

namespace hf2q {

struct CacheQuality {
  Divergence divergence;
  std::vector<double> attention_cosine;  // [layers]
  uint64_t n_routed;                     // rows of all layers with experts
  uint64_t n_flips;
};

// Both engines hold the same model. Errors as compare_on_text().
Result<CacheQuality> compare_caches(Engine& a, Engine& b, std::span<const int32_t> ids);

}  // namespace hf2q
