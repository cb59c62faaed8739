#pragma once
// What a user may ask of the sampler, and the ranges it may lie in.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"

namespace hf2q {

struct LogitBias {
  int32_t token = 0;
  float bias = 0;  // added to the logit; -100 and 100 mean "never" and "always" in practice
};

// The defaults change nothing: the model's own distribution. A model file brings its own defaults.
struct SamplingParams {
  float temperature = 1;        // logits are divided by it; 0: always the most likely token
  int64_t top_k = 0;            // only the k most likely tokens; 0 or less: all
  float top_p = 1;              // the fewest likely tokens that hold this share; 0: one token
  float min_p = 0;              // only tokens at least this fraction as likely as the best one
  float repeat_penalty = 1;     // for tokens seen: logit / penalty if positive, else * penalty
  int64_t penalty_last_n = 64;  // tokens back that count as seen; 0: none, less: the whole sequence
  float presence_penalty = 0;   // subtracted once for each token already in the answer
  float frequency_penalty = 0;  // subtracted once per time that a token is in the answer
  std::vector<LogitBias> logit_bias{};       // several for one token add up
  std::vector<int32_t> suppressed_tokens{};  // never chosen, at temperature 0 either
  uint64_t seed = 0;
};

// `params` with every setting that `given` has: a struct of optionals with the same names.
template <class Given>
SamplingParams with_given(SamplingParams params, const Given& given) {
  params.temperature = given.temperature.value_or(params.temperature);
  params.top_k = given.top_k.value_or(params.top_k);
  params.top_p = given.top_p.value_or(params.top_p);
  params.min_p = given.min_p.value_or(params.min_p);
  params.repeat_penalty = given.repeat_penalty.value_or(params.repeat_penalty);
  params.presence_penalty = given.presence_penalty.value_or(params.presence_penalty);
  params.frequency_penalty = given.frequency_penalty.value_or(params.frequency_penalty);
  return params;
}

// Brings `params` into the form that sample() expects, or says which field cannot be meant
// (kInvalidArgument: "top_p: 0 to 1 expected, found 1.5").
// Clamped: top_k below 0 to 0 and above the vocabulary to 0 (both keep all); penalty_last_n below
// -1 to -1. Refused: temperature negative or not finite; top_p, min_p outside [0, 1];
// repeat_penalty outside [0.01, 100]; presence_penalty, frequency_penalty outside [-2, 2]; a
// bias outside [-100, 100]; a token id outside [0, vocab_size).
Result<SamplingParams> validate(SamplingParams params, size_t vocab_size);

// The most tokens an answer may have when `room` are left in the context: n_predict, at most
// `room`; any negative number means `room`.
inline size_t answer_limit(int64_t n_predict, size_t room) {
  const bool fits = n_predict >= 0 && static_cast<uint64_t>(n_predict) < room;
  return fits ? static_cast<size_t>(n_predict) : room;
}

}  // namespace hf2q
