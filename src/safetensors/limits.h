#pragma once
// What reader and writer both hold a file to.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace hf2q {

constexpr uint64_t kSafetensorsMinHeaderBytes = 2;
constexpr uint64_t kSafetensorsMaxHeaderBytes = 100'000'000;
constexpr size_t kSafetensorsMaxNameBytes = size_t{64} * 1024;
constexpr std::string_view kSafetensorsMetadataKey =
    "__metadata__";  // stands where a tensor's name would

// Refuses an empty or overlong name and NUL bytes; the message begins with `file`.
Status check_tensor_name(std::string_view name, const std::string& file, ErrorCode code);

}  // namespace hf2q
