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
// tensor, and the expected and the found value. Values and names are views of the file; the lists
// of keys and tensors take at most 8 bytes of memory for each byte of the header.
//
// Stricter than the format, as no real file needs more: at most 2^20 keys and 2^20 tensors; keys of
// 1 to 65535 and tensor names of 1 to 63 bytes, printable ASCII, none twice; arrays of at most 2^30
// elements; 1 to 4 dimensions, none of them 0; an alignment of at most 2^20; no types that only
// activations have. Bytes behind the last tensor are ignored.
//
// A model in shards is PREFIX-00001-of-00003.gguf and so on, each a file of its own with its own
// data section and the keys split.no (u16, from 0), split.count (u16) and split.tensors.count (i32,
// of all shards). The first one has the metadata and may have no tensors.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "base/tensor_type.h"
#include "gguf/name_index.h"
#include "gguf/value.h"

namespace hf2q {

struct GgufHeader;
struct Split;

struct GgufTensor {
  std::string_view name;
  std::array<uint64_t, 4> dims = {1, 1, 1, 1};  // fastest first: dims[0] is the row length
  uint32_t n_dims = 1;
  const TensorTypeInfo* type = nullptr;  // never nullptr; may be a type without a codec
  std::span<const std::byte> data;       // begins at a multiple of the file's alignment, perhaps 1

  uint64_t n_rows() const { return dims[1] * dims[2] * dims[3]; }
  uint64_t n_elements() const { return dims[0] * n_rows(); }
};

class GgufFile {
 public:
  // Opens a file and, when it is the first of several shards, its siblings in the same directory.
  // Another shard is refused, naming the first; so are shards that do not fit together.
  static Result<GgufFile> open(const std::string& path);
  // Parses one file that lies in memory (no shards). `name` stands for the path in errors. Views in
  // the result point into `bytes`.
  static Result<GgufFile> parse(std::span<const std::byte> bytes, const std::string& name);

  const std::string& path() const { return path_; }
  uint32_t version() const { return version_; }
  uint64_t file_bytes() const { return file_bytes_; }  // all shards
  size_t n_shards() const;
  std::vector<std::string> shard_paths() const;  // none after parse()
  // XXH3, 128 bits, of all bytes of all shards: reads them once. Of nothing after parse().
  std::array<uint64_t, 2> digest() const;

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
  Result<std::vector<float>> get_f32s(std::string_view key) const;
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
  GgufFile(GgufHeader header, const std::string& path, uint64_t file_bytes);
  Status add_siblings(const Split& first);
  Status add_sibling(const std::string& path, const Split& expected);
  Status index_tensors();
  const MappedFile* shard_of(std::span<const std::byte> data) const;  // nullptr after parse()

  std::string path_;
  uint32_t version_ = 0;
  uint64_t file_bytes_ = 0;
  std::vector<MappedFile> shards_;  // none after parse()
  std::vector<std::pair<std::string_view, Value>> metadata_;
  NameIndex keys_;
  std::vector<GgufTensor> tensors_;
  NameIndex tensor_names_;
};

}  // namespace hf2q
