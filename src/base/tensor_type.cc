#include "base/tensor_type.h"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "base/check.h"

namespace hf2q {
namespace {

// Source: the type table of the GGUF specification. Activation-only types (Q8_1, Q8_K) are not
// here: they are never weights.
constexpr TensorTypeInfo kTypes[] = {
    {0, "f32", 1, 4, true},          {1, "f16", 1, 2, true},
    {2, "q4_0", 32, 18, true},       {3, "q4_1", 32, 20, true},
    {6, "q5_0", 32, 22, true},       {7, "q5_1", 32, 24, true},
    {8, "q8_0", 32, 34, true},       {10, "q2_k", 256, 84, true},
    {11, "q3_k", 256, 110, true},    {12, "q4_k", 256, 144, true},
    {13, "q5_k", 256, 176, true},    {14, "q6_k", 256, 210, true},
    {16, "iq2_xxs", 256, 66, false}, {17, "iq2_xs", 256, 74, false},
    {18, "iq3_xxs", 256, 98, false}, {19, "iq1_s", 256, 50, false},
    {20, "iq4_nl", 32, 18, true},    {21, "iq3_s", 256, 110, false},
    {22, "iq2_s", 256, 82, false},   {23, "iq4_xs", 256, 136, false},
    {24, "i8", 1, 1, false},         {25, "i16", 1, 2, false},
    {26, "i32", 1, 4, false},        {27, "i64", 1, 8, false},
    {28, "f64", 1, 8, false},        {29, "iq1_m", 256, 56, false},
    {30, "bf16", 1, 2, true},        {34, "tq1_0", 256, 54, false},
    {35, "tq2_0", 256, 66, false},   {39, "mxfp4", 32, 17, false},
    {40, "nvfp4", 64, 36, false},    {41, "q1_0", 128, 18, false},
    {42, "q2_0", 64, 18, false},
};

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

}  // namespace

std::span<const TensorTypeInfo> tensor_types() {
  return kTypes;
}

const TensorTypeInfo* find_tensor_type(uint32_t id) {
  const auto* found =
      std::ranges::find_if(kTypes, [id](const TensorTypeInfo& info) { return info.id == id; });
  return found == std::end(kTypes) ? nullptr : found;
}

const TensorTypeInfo& tensor_type_info(TensorType type) {
  const TensorTypeInfo* info = find_tensor_type(static_cast<uint32_t>(type));
  CHECK(info != nullptr);
  return *info;
}

std::optional<TensorType> parse_tensor_type(std::string_view name) {
  for (const TensorTypeInfo& info : kTypes) {
    if (info.supported && equal_ignoring_case(info.name, name)) {
      return static_cast<TensorType>(info.id);
    }
  }
  return std::nullopt;
}

bool is_quantized(TensorType type) {
  return tensor_type_info(type).block_elements > 1;
}

size_t row_bytes(TensorType type, size_t elements) {
  const TensorTypeInfo& info = tensor_type_info(type);
  CHECK(elements % info.block_elements == 0);
  return elements / info.block_elements * info.block_bytes;
}

}  // namespace hf2q
