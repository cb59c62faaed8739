#include "sample/params.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

namespace hf2q {
namespace {

// NaN lies in no range.
Status check_range(std::string_view field, float value, float low, float high) {
  if (value >= low && value <= high) return Ok{};
  return error(ErrorCode::kInvalidArgument, "{}: {} to {} expected, found {}", field, low, high,
               value);
}

Status check_token(std::string_view field, int32_t token, size_t vocab_size) {
  if (token >= 0 && static_cast<size_t>(token) < vocab_size) return Ok{};
  return error(ErrorCode::kInvalidArgument, "{}: token id 0 to {} expected, found {}", field,
               vocab_size - 1, token);
}

Status check_scalars(const SamplingParams& params) {
  if (!std::isfinite(params.temperature) || params.temperature < 0) {
    return error(ErrorCode::kInvalidArgument, "temperature: a number from 0 up expected, found {}",
                 params.temperature);
  }
  TRY_OK(check_range("repeat_penalty", params.repeat_penalty, 0.01F, 100));
  TRY_OK(check_range("top_p", params.top_p, 0, 1));
  TRY_OK(check_range("min_p", params.min_p, 0, 1));
  TRY_OK(check_range("presence_penalty", params.presence_penalty, -2, 2));
  TRY_OK(check_range("frequency_penalty", params.frequency_penalty, -2, 2));
  return Ok{};
}

}  // namespace

Result<SamplingParams> validate(SamplingParams params, size_t vocab_size) {
  TRY_OK(check_scalars(params));
  for (const LogitBias& entry : params.logit_bias) {
    TRY_OK(check_token("logit_bias", entry.token, vocab_size));
    TRY_OK(check_range("logit_bias", entry.bias, -100, 100));
  }
  for (int32_t token : params.suppressed_tokens) {
    TRY_OK(check_token("suppressed_tokens", token, vocab_size));
  }
  const bool keeps_all = params.top_k < 0 || static_cast<uint64_t>(params.top_k) >= vocab_size;
  if (keeps_all) params.top_k = 0;
  params.penalty_last_n = std::max<int64_t>(params.penalty_last_n, -1);
  return params;
}

}  // namespace hf2q
