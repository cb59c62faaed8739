#pragma once
// How the numbers of a tensor are stored: names, ids and block sizes of the GGUF tensor types.
// A row of `n` elements takes n / block_elements blocks of block_bytes bytes, back to back.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace hf2q {

// The types that this program reads and writes; the value is the id in the file.
enum class TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4_NL = 20,
  kBF16 = 30,
};

struct TensorTypeInfo {
  uint32_t id;              // as in a GGUF file
  std::string_view name;    // lower case: "q4_k"
  uint32_t block_elements;  // elements of one block; a row must be a multiple
  uint32_t block_bytes;
  bool supported;  // a TensorType: rows can be encoded and decoded
};

// Every type that a valid GGUF file may hold as a weight, or nullptr for an unknown or removed id.
const TensorTypeInfo* find_tensor_type(uint32_t id);
const TensorTypeInfo& tensor_type_info(TensorType type);
// By name, in either case ("Q4_K", "q4_k"); only supported types.
std::optional<TensorType> parse_tensor_type(std::string_view name);
std::span<const TensorTypeInfo> tensor_types();

inline std::string_view name_of(TensorType type) {
  return tensor_type_info(type).name;
}
bool is_quantized(TensorType type);  // in blocks: everything but F32, F16, BF16

// Bytes of a row; CHECKs that `elements` is a whole number of blocks.
size_t row_bytes(TensorType type, size_t elements);

}  // namespace hf2q
