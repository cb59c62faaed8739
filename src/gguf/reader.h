#pragma once
// Reads GGUF files, versions 2 and 3, single or in shards.
//
//   magic "GGUF" | u32 version | u64 n_tensors | u64 n_kv
//   n_kv     x  key (string) | u32 value type | value              (value.h)
//   n_tensors x name (string) | u32 n_dims | n_dims x u64 | u32 tensor type | u64 offset
//   zero bytes up to a multiple of the alignment (general.alignment, 32 when absent)
//   data: tensor i at offset[i] = offset[i-1] + round_up(size[i-1], alignment), offset[0] = 0
//
// Everything is checked before it is used: counts against the bytes that remain, products and sums
// for overflow, every tensor against the end of the file. An error names the file, the key or
// tensor, and the expected and the found value. Memory taken is bounded by the size of the header.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "base/tensor_type.h"
#include "gguf/value.h"

namespace hf2q {

struct GgufTensor {
  std::string_view name;
  std::array<uint64_t, 4> dims = {1, 1, 1, 1};  // fastest first: dims[0] is the row length
  uint32_t n_dims = 1;
  const TensorTypeInfo* type = nullptr;  // never nullptr; may be a type without a codec
  std::span<const std::byte> data;

  uint64_t n_rows() const { return dims[1] * dims[2] * dims[3]; }
  uint64_t n_elements() const { return dims[0] * n_rows(); }
};

class GgufFile {
 public:
  // Opens a file and, when it is the first of several shards, its siblings in the same directory.
  static Result<GgufFile> open(const std::string& path);
  // Parses one file that lies in memory (no shards). `name` stands for the path in errors. Views in
  // the result point into `bytes`.
  static Result<GgufFile> parse(std::span<const std::byte> bytes, const std::string& name);

  const std::string& path() const { return path_; }
  uint32_t version() const { return version_; }
  uint64_t file_bytes() const { return file_bytes_; }  // all shards
  size_t n_shards() const;

  // Metadata of the first shard, in file order.
  std::span<const std::pair<std::string_view, Value>> metadata() const { return metadata_; }
  const Value* find(std::string_view key) const;  // nullptr when absent
  // A required value of an exact type; kNotFound or kCorrupt naming the file, the key, the expected
  // and the found type.
  Result<uint32_t> get_u32(std::string_view key) const;
  Result<float> get_f32(std::string_view key) const;
  Result<bool> get_bool(std::string_view key) const;
  Result<std::string_view> get_string(std::string_view key) const;
  Result<std::vector<int32_t>> get_integers(std::string_view key) const;
  Result<std::vector<bool>> get_bools(std::string_view key) const;
  Result<std::vector<std::string_view>> get_strings(std::string_view key) const;

  // Tensors of all shards, in file order.
  std::span<const GgufTensor> tensors() const { return tensors_; }
  const GgufTensor* find_tensor(std::string_view name) const;  // nullptr when absent

  // Tells the kernel that the pages of `data` (from a tensor of this file) are needed soon, or not
  // any more.
  void will_need(std::span<const std::byte> data) const;
  void release(std::span<const std::byte> data) const;

 private:
  GgufFile() = default;
  std::string path_;
  uint32_t version_ = 0;
  uint64_t file_bytes_ = 0;
  std::vector<MappedFile> shards_;
  std::vector<std::pair<std::string_view, Value>> metadata_;
  std::unordered_map<std::string_view, size_t> metadata_index_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string_view, size_t> tensor_index_;
};

}  // namespace hf2q
