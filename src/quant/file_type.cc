#include "quant/file_type.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"

namespace hf2q {
namespace {

constexpr FileTypeInfo kFileTypes[] = {
    {FileType::kF32, "f32", TensorType::kF32},
    {FileType::kBF16, "bf16", TensorType::kBF16},
    {FileType::kF16, "f16", TensorType::kF16},
    {FileType::kQ8_0, "q8_0", TensorType::kQ8_0},
    {FileType::kQ6_K, "q6_k", TensorType::kQ6_K},
    {FileType::kQ5_1, "q5_1", TensorType::kQ5_1},
    {FileType::kQ5_K_M, "q5_k_m", TensorType::kQ5_K},
    {FileType::kQ5_K_S, "q5_k_s", TensorType::kQ5_K},
    {FileType::kQ5_0, "q5_0", TensorType::kQ5_0},
    {FileType::kQ4_1, "q4_1", TensorType::kQ4_1},
    {FileType::kQ4_K_M, "q4_k_m", TensorType::kQ4_K},
    {FileType::kQ4_K_S, "q4_k_s", TensorType::kQ4_K},
    {FileType::kQ4_0, "q4_0", TensorType::kQ4_0},
    {FileType::kIQ4_NL, "iq4_nl", TensorType::kIQ4_NL},
    {FileType::kQ3_K_L, "q3_k_l", TensorType::kQ3_K},
    {FileType::kQ3_K_M, "q3_k_m", TensorType::kQ3_K},
    {FileType::kQ3_K_S, "q3_k_s", TensorType::kQ3_K},
    {FileType::kQ2_K, "q2_k", TensorType::kQ2_K},
    {FileType::kQ2_K_S, "q2_k_s", TensorType::kQ2_K},
};

constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
    {"q3_k", "q3_k_m"},
    {"q4_k", "q4_k_m"},
    {"q5_k", "q5_k_m"},
};

const FileTypeInfo& info_of(FileType type) {
  const auto* found = std::ranges::find(kFileTypes, type, &FileTypeInfo::type);
  CHECK(found != std::end(kFileTypes));
  return *found;
}

std::string canonical_name(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const auto& [alias, full] : kAliases) {
    if (lower == alias) return std::string(full);
  }
  return lower;
}

}  // namespace

std::span<const FileTypeInfo> file_types() {
  return kFileTypes;
}

std::string_view name_of(FileType type) {
  return info_of(type).name;
}

TensorType base_type(FileType type) {
  return info_of(type).base;
}

Result<FileType> parse_file_type(std::string_view name) {
  const std::string wanted = canonical_name(name);
  std::vector<std::string_view> known;
  for (const FileTypeInfo& info : kFileTypes) {
    if (info.name == wanted) return info.type;
    known.push_back(info.name);
  }
  return error(ErrorCode::kInvalidArgument, "file type \"{}\": one of {} expected", name,
               fmt::join(known, ", "));
}

}  // namespace hf2q
