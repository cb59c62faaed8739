#pragma once
// The header of one GGUF file (layout and rules: reader.h): parsing and nothing else. For
// reader.cc.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "gguf/name_index.h"
#include "gguf/reader.h"
#include "gguf/value.h"

namespace hf2q {

struct GgufHeader {
  uint32_t version = 0;
  std::vector<std::pair<std::string_view, Value>> metadata;
  NameIndex keys;  // of metadata; keys are unique
  // Placed within the file. Names may occur twice: that is for whoever has all shards to find out.
  std::vector<GgufTensor> tensors;

  const Value* find(std::string_view key) const;
};

// `bytes` is the whole file, `path` its name in errors.
Result<GgufHeader> parse_header(std::span<const std::byte> bytes, const std::string& path);

}  // namespace hf2q
