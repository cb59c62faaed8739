#include "gguf/shards.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

namespace hf2q {
namespace {

// Far above any real model: a mapping and a file name each, before a hostile count costs anything.
constexpr uint16_t kMaxShards = 1024;

template <class T>
Result<T> required(const GgufHeader& header, const std::string& path, std::string_view key,
                   std::optional<T> (Value::*as)() const, std::string_view type) {
  const Value* value = header.find(key);
  const std::optional<T> found = value != nullptr ? (value->*as)() : std::nullopt;
  if (found) return *found;
  return error(ErrorCode::kCorrupt, "{}: key '{}': {} expected in a shard, found {}", path, key,
               type, value != nullptr ? describe(*value) : "none");
}

}  // namespace

Result<Split> read_split(const GgufHeader& header, const std::string& path) {
  if (header.find("split.count") == nullptr) return Split{};
  TRY(count, required(header, path, "split.count", &Value::as_u16, "u16"));
  if (count <= 1) return Split{};
  if (count > kMaxShards) {
    return error(ErrorCode::kCorrupt, "{}: key 'split.count': at most {} expected, found {}", path,
                 kMaxShards, count);
  }
  TRY(number, required(header, path, "split.no", &Value::as_u16, "u16"));
  if (number >= count) {
    return error(ErrorCode::kCorrupt,
                 "{}: key 'split.no': less than split.count {} expected, found {}", path, count,
                 number);
  }
  TRY(n_tensors, required(header, path, "split.tensors.count", &Value::as_i32, "i32"));
  if (n_tensors < 0) {
    return error(ErrorCode::kCorrupt, "{}: key 'split.tensors.count': 0 or more expected, found {}",
                 path, n_tensors);
  }
  return Split{number, count, static_cast<uint32_t>(n_tensors)};
}

Result<std::string> shard_prefix(const std::string& path, const Split& split) {
  const std::string ending = shard_path("", split.number, split.count);
  const bool named = path.ends_with(ending);
  const std::string prefix = path.substr(0, path.size() - (named ? ending.size() : 0));
  if (split.number != 0) {
    return error(ErrorCode::kUnsupported, "{}: this is shard {} of {}, open the first one: {}",
                 path, split.number + 1, split.count,
                 shard_path(named ? prefix : "NAME", 0, split.count));
  }
  if (!named) {
    return error(ErrorCode::kUnsupported,
                 "{}: this is shard 1 of {}, a name that ends in {} expected", path, split.count,
                 ending);
  }
  return prefix;
}

std::string shard_path(const std::string& prefix, unsigned number, unsigned count) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, number + 1, count);
}

}  // namespace hf2q
