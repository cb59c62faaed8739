#pragma once
// What reader and writer hold a GGUF file to (reader.h says it in words).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hf2q {

constexpr uint64_t kGgufMaxEntries = uint64_t{1} << 20;   // keys, tensors
constexpr uint64_t kGgufMaxElements = uint64_t{1} << 30;  // of an array
constexpr size_t kGgufMaxKeyBytes = 65535;
constexpr size_t kGgufMaxTensorNameBytes = 63;  // ggml keeps 64 bytes, the last one zero
constexpr size_t kGgufMaxDims = 4;
constexpr uint32_t kGgufAlignment = 32;  // when general.alignment is absent
constexpr uint32_t kGgufMaxAlignment = uint32_t{1} << 20;

// Position of the first byte that is not printable ASCII, name.size() if there is none. Names
// appear in errors and on terminals.
inline size_t find_unprintable(std::string_view name) {
  const auto unprintable = [](char c) { return c < ' ' || c > '~'; };
  return static_cast<size_t>(std::ranges::find_if(name, unprintable) - name.begin());
}

}  // namespace hf2q
