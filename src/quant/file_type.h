#pragma once
// What a whole GGUF file is quantized to: the value of --quant and of `general.file_type`. A file
// type names the type of most tensors; which tensors get more bits is decided in policy.h.

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "base/tensor_type.h"

namespace hf2q {

// The value is the id in the file.
enum class FileType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ8_0 = 7,
  kQ5_0 = 8,
  kQ5_1 = 9,
  kQ2_K = 10,
  kQ3_K_S = 11,
  kQ3_K_M = 12,
  kQ3_K_L = 13,
  kQ4_K_S = 14,
  kQ4_K_M = 15,
  kQ5_K_S = 16,
  kQ5_K_M = 17,
  kQ6_K = 18,
  kQ2_K_S = 21,
  kIQ4_NL = 25,
  kBF16 = 32,
};

struct FileTypeInfo {
  FileType type;
  std::string_view name;  // lower case: "q4_k_m"
  TensorType base;        // of the tensors without a rule of their own
};

// Every file type, from the widest to the narrowest.
std::span<const FileTypeInfo> file_types();
std::string_view name_of(FileType type);
TensorType base_type(FileType type);

// In either case ("Q4_K_M", "q4_k_m"); q3_k, q4_k and q5_k stand for their _m form.
// kInvalidArgument naming the value and every type that is known.
Result<FileType> parse_file_type(std::string_view name);

}  // namespace hf2q
