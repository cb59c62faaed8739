#include "sample/sample.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/check.h"
#include "sample/exponential.h"
#include "sample/philox.h"

namespace hf2q {
namespace {

bool has_repeat_penalty(const SamplingParams& params) {
  return params.repeat_penalty != 1 && params.penalty_last_n != 0;
}

bool has_count_penalty(const SamplingParams& params) {
  return params.presence_penalty != 0 || params.frequency_penalty != 0;
}

bool adjusts(const SampleInput& input, const SamplingParams& params) {
  return !params.suppressed_tokens.empty() || !input.allowed.empty() ||
         !params.logit_bias.empty() || has_repeat_penalty(params) || has_count_penalty(params);
}

void apply_mask(std::span<const uint64_t> allowed, std::span<float> logits) {
  if (allowed.empty()) return;
  for (size_t t = 0; t < logits.size(); ++t) {
    if ((allowed[t / 64] >> (t % 64) & 1) == 0) logits[t] = kImpossible;
  }
}

// Calls f(logit, count) once for each distinct token of the two lists, count being how often it is
// in both. `counts` is all 0 before and after.
template <class F>
void for_each_distinct(std::span<const int32_t> first, std::span<const int32_t> second,
                       std::span<float> logits, std::vector<uint32_t>& counts, F f) {
  const auto each = [&](auto visit) {
    for (std::span<const int32_t> tokens : {first, second}) {
      for (int32_t token : tokens) {
        const size_t t = static_cast<size_t>(token);  // a negative id is beyond every vocabulary
        if (t < logits.size()) visit(t);
      }
    }
  };
  counts.resize(logits.size());
  each([&](size_t t) { ++counts[t]; });
  each([&](size_t t) {
    if (counts[t] == 0) return;
    f(logits[t], counts[t]);
    counts[t] = 0;
  });
}

void apply_repeat_penalty(const SampleInput& input, const SamplingParams& params,
                          std::span<float> logits, std::vector<uint32_t>& counts) {
  const size_t all = input.prompt.size() + input.answer.size();
  const size_t seen =
      params.penalty_last_n < 0 ? all : std::min(all, static_cast<size_t>(params.penalty_last_n));
  const size_t from_answer = std::min(seen, input.answer.size());
  for_each_distinct(input.prompt.last(seen - from_answer), input.answer.last(from_answer), logits,
                    counts, [&](float& logit, uint32_t) {
                      logit =
                          logit > 0 ? logit / params.repeat_penalty : logit * params.repeat_penalty;
                    });
}

void apply_count_penalties(const SampleInput& input, const SamplingParams& params,
                           std::span<float> logits, std::vector<uint32_t>& counts) {
  for_each_distinct({}, input.answer, logits, counts, [&](float& logit, uint32_t count) {
    logit -= params.presence_penalty + params.frequency_penalty * static_cast<float>(count);
  });
}

// Steps 1 to 4; the input's own logits when nothing is asked for.
std::span<const float> adjusted_logits(const SampleInput& input, const SamplingParams& params,
                                       SampleScratch& scratch) {
  if (!adjusts(input, params)) return input.logits;
  scratch.logits.assign(input.logits.begin(), input.logits.end());
  const std::span<float> logits = scratch.logits;
  apply_mask(input.allowed, logits);
  for (int32_t token : params.suppressed_tokens) {
    logits[static_cast<size_t>(token)] = kImpossible;
  }
  for (const LogitBias& entry : params.logit_bias) {
    logits[static_cast<size_t>(entry.token)] += entry.bias;
  }
  if (has_repeat_penalty(params)) apply_repeat_penalty(input, params, logits, scratch.counts);
  if (has_count_penalty(params)) apply_count_penalties(input, params, logits, scratch.counts);
  return logits;
}

// How likely a logit is, relative to the best one.
double likelihood(float logit, float max) {
  return exp_non_positive(logit - max);
}

// The length of the shortest prefix of `candidates` (best first) with at least `target` of
// likelihood.
std::optional<size_t> prefix_reaching(std::span<const Candidate> candidates, float max,
                                      double target) {
  double sum = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    sum += likelihood(candidates[i].logit, max);
    if (sum >= target) return i + 1;
  }
  return std::nullopt;
}

// Top-p over the candidates of top-k, best first.
void keep_nucleus(std::vector<Candidate>& candidates, float max, double top_p) {
  double total = 0;
  for (const Candidate& c : candidates) total += likelihood(c.logit, max);
  candidates.resize(prefix_reaching(candidates, max, top_p * total).value_or(candidates.size()));
}

// Top-p over all tokens: looks at more of the best ones until they hold enough.
void select_nucleus(std::span<const float> logits, float max, double top_p,
                    std::vector<Candidate>& candidates) {
  const double target = top_p * exp_sum(logits, max);
  for (size_t k = std::min<size_t>(256, logits.size());; k = std::min(8 * k, logits.size())) {
    top_k(logits, k, candidates);
    const std::optional<size_t> size = prefix_reaching(candidates, max, target);
    if (size) candidates.resize(*size);
    if (size || candidates.size() < k || k == logits.size()) return;
  }
}

// Every token that may come, in ascending token id.
void select_all(std::span<const float> logits, std::vector<Candidate>& candidates) {
  candidates.clear();
  for (size_t t = 0; t < logits.size(); ++t) {
    if (logits[t] != kImpossible) candidates.push_back({static_cast<int32_t>(t), logits[t]});
  }
}

void sort_by_token(std::vector<Candidate>& candidates) {
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.token < b.token; });
}

// Steps 6 to 8: the survivors, in ascending token id.
void select_candidates(std::span<const float> logits, float max, const SamplingParams& params,
                       std::vector<Candidate>& candidates) {
  if (params.top_k > 0) {
    top_k(logits, static_cast<size_t>(params.top_k), candidates);
    if (params.top_p < 1) keep_nucleus(candidates, max, double{params.top_p});
    sort_by_token(candidates);
  } else if (params.top_p < 1) {
    select_nucleus(logits, max, double{params.top_p}, candidates);
    sort_by_token(candidates);
  } else {
    select_all(logits, candidates);
  }
  if (params.min_p > 0) {
    std::erase_if(candidates, [&](const Candidate& c) {
      return likelihood(c.logit, max) < double{params.min_p};
    });
  }
}

// Step 9. The best token survived, so the weights hold a 1.
int32_t draw(std::span<const Candidate> candidates, float max, float temperature, double uniform,
             std::vector<double>& weights) {
  weights.resize(candidates.size());
  for (size_t i = 0; i < candidates.size(); ++i) {
    weights[i] = exp_non_positive((candidates[i].logit - max) / temperature);
  }
  double total = 0;
  for (double weight : weights) total += weight;
  const double target = uniform * total;
  double sum = 0;
  for (size_t i = 0; i + 1 < candidates.size(); ++i) {
    sum += weights[i];
    if (sum > target) return candidates[i].token;
  }
  return candidates.back().token;
}

}  // namespace

Result<int32_t> sample(const SampleInput& input, const SamplingParams& params,
                       SampleScratch& scratch) {
  CHECK(input.allowed.empty() || input.allowed.size() * 64 >= input.logits.size());
  TRY_OK(max_logit(input.logits));
  const std::span<const float> logits = adjusted_logits(input, params, scratch);
  TRY(max, max_logit(logits));
  if (max == kImpossible) {
    return error(ErrorCode::kInvalidArgument,
                 "no token can follow: all {} are suppressed or outside the mask", logits.size());
  }
  if (params.temperature == 0) return best_token(logits, max);
  select_candidates(logits, max, params, scratch.candidates);
  return draw(scratch.candidates, max, params.temperature,
              uniform_at(params.seed, input.choice, input.answer.size()), scratch.weights);
}

}  // namespace hf2q
