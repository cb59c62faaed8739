#pragma once
// Logits to token. One pure function: the same input gives the same token on every machine, with
// any number of threads, whatever else is served, and after any pause, preemption or resumption.
//
// Order (that of llama.cpp's default chain):
//   1. suppressed tokens and tokens outside the mask become -infinity
//   2. logit bias is added
//   3. repeat penalty, once for each token among the last penalty_last_n of prompt and answer:
//      l > 0 ? l / penalty : l * penalty
//   4. presence and frequency penalty over the answer: l -= presence * (count > 0) +
//      frequency * count
//   5. temperature 0: the best token (the lowest id among equals), and nothing below
//   6. top-k; 7. top-p of what is left; 8. min-p; the three see probabilities at temperature 1
//   9. weights exp((l - max) / temperature), one draw among the survivors in ascending token id
// At least one token survives 6 to 8. Ties at a boundary go to the lower id.
//
// The random number is uniform_at(seed, choice, answer length) of philox.h.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "sample/params.h"
#include "sample/top_k.h"

namespace hf2q {

// Token ids of prompt and answer that lie outside the vocabulary (places of images) are ignored.
struct SampleInput {
  std::span<const float> logits{};    // [vocab_size], after the final soft-cap
  std::span<const int32_t> prompt{};  // tokens before the answer
  std::span<const int32_t> answer{};  // tokens of the answer so far
  std::span<const uint64_t>
      allowed{};        // bit t % 64 of word t / 64: token t may come; empty: all may
  uint32_t choice = 0;  // which of several answers to one prompt
};

// Memory that is reused from call to call; holds no state between them.
struct SampleScratch {
  std::vector<float> logits;     // [vocab_size], adjusted
  std::vector<uint32_t> counts;  // [vocab_size], all 0 between uses
  std::vector<Candidate> candidates;
  std::vector<double> weights;
};

// `params` as validate() returns them. CHECKs that `allowed` is empty or covers the vocabulary.
// Fails with kCorrupt when a logit is NaN or +infinity (naming the token), with kInvalidArgument
// when suppression and mask leave no token.
Result<int32_t> sample(const SampleInput& input, const SamplingParams& params,
                       SampleScratch& scratch);

}  // namespace hf2q
