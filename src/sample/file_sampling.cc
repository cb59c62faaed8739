#include "sample/file_sampling.h"

#include <string_view>

namespace hf2q {
namespace {

struct Setting {
  std::string_view key;
  float SamplingParams::*field;
};
constexpr Setting kSettings[] = {
    {"general.sampling.temp", &SamplingParams::temperature},
    {"general.sampling.top_p", &SamplingParams::top_p},
    {"general.sampling.min_p", &SamplingParams::min_p},
};
constexpr std::string_view kTopK = "general.sampling.top_k";

Status read_setting(const GgufFile& file, const Setting& setting, SamplingParams& params) {
  if (file.find(setting.key) == nullptr) return Ok{};
  TRY(value, file.get_f32(setting.key));
  SamplingParams alone;
  alone.*setting.field = value;
  const auto valid = validate(alone, 0);
  if (!valid.ok()) {
    return error(ErrorCode::kCorrupt, "{}: {}: {}", file.path(), setting.key,
                 valid.error().message);
  }
  params.*setting.field = value;
  return Ok{};
}

Status read_top_k(const GgufFile& file, SamplingParams& params) {
  const Value* value = file.find(kTopK);
  if (value == nullptr) return Ok{};
  if (const auto number = value->as_i32()) {
    params.top_k = *number;
  } else if (const auto count = value->as_u32()) {
    params.top_k = *count;
  } else {
    return error(ErrorCode::kCorrupt, "{}: {}: i32 expected, found {}", file.path(), kTopK,
                 describe(*value));
  }
  return Ok{};
}

}  // namespace

Result<SamplingParams> read_sampling(const GgufFile& file) {
  SamplingParams params;
  for (const Setting& setting : kSettings) TRY_OK(read_setting(file, setting, params));
  TRY_OK(read_top_k(file, params));
  return params;
}

}  // namespace hf2q
