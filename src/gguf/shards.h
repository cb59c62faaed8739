#pragma once
// Which shard of a model a GGUF file is (rules: reader.h). For reader.cc.

#include <cstdint>
#include <string>

#include "base/result.h"
#include "gguf/header.h"

namespace hf2q {

struct Split {
  uint16_t number = 0;     // of this shard, from 0
  uint16_t count = 1;      // of shards; 1: a file of its own
  uint32_t n_tensors = 0;  // of all shards
};

// From the split.* keys. kCorrupt when they are incomplete, of other types or out of range.
Result<Split> read_split(const GgufHeader& header, const std::string& path);

// What comes before "-00001-of-00003.gguf" in the path of a first shard. kUnsupported when
// `split` is not the first, or the name is another one.
Result<std::string> shard_prefix(const std::string& path, const Split& split);

std::string shard_path(const std::string& prefix, unsigned number, unsigned count);

}  // namespace hf2q
