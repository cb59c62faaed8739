#pragma once
// A text as a measure: how well a model predicts it, and how far a model's predictions are from
// another's. Contexts of n_ctx tokens follow one another without overlap; the first token of each
// is given, every other one is predicted from those before it.

#include <cstdint>
#include <span>

#include "base/result.h"
#include "engine/divergence.h"
#include "engine/engine.h"

namespace hf2q {

struct TextScore {
  size_t n_tokens;  // that were predicted
  double mean_nll;  // nats per token; the perplexity is its exponential
};

// Engines here have as many outputs as rows (EngineOptions::max_outputs, CHECKed).
// kInvalidArgument: fewer than 2 tokens, or an id outside of the vocabulary; kCorrupt: logits that
// are no numbers.
Result<TextScore> score_text(Engine& engine, std::span<const int32_t> ids);

// Both models read the text chunk by chunk, so that no more logits are held than those of one chunk
// of each: first by a, then by b, each seen by its observer if it has one. The shorter context and
// the smaller batch count. Also kInvalidArgument: vocabularies of different sizes.
Result<Divergence> compare_on_text(Engine& a, Engine& b, std::span<const int32_t> ids,
                                   const Observer* observer_a = nullptr,
                                   const Observer* observer_b = nullptr);

}  // namespace hf2q
