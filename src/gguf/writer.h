#pragma once
// Writes a GGUF file, version 3 (layout: reader.h), in one pass: metadata and tensor infos first,
// then the data of every tensor in the order in which they were added. Only the header is held in
// memory.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/output_file.h"
#include "base/result.h"
#include "base/tensor_type.h"
#include "gguf/value.h"

namespace hf2q {

// The metadata of a file to be written, in order. A key that is set again keeps its place. Keys are
// 1 to 65535 bytes of printable ASCII (CHECKed).
class GgufMetadata {
 public:
  void set_u32(std::string_view key, uint32_t value);
  void set_i32(std::string_view key, int32_t value);
  void set_f32(std::string_view key, float value);
  void set_bool(std::string_view key, bool value);
  void set_string(std::string_view key, std::string_view value);
  void set_integers(std::string_view key, std::span<const int32_t> values);  // array of i32
  void set_f32s(std::string_view key, std::span<const float> values);
  void set_bools(std::string_view key, const std::vector<bool>& values);
  void set_strings(std::string_view key, std::span<const std::string_view> values);
  void set(std::string_view key, const Value& value);  // a checked value, copied as it is
  void remove(std::string_view key);

  struct Entry {
    std::string key;
    ValueType type;
    std::vector<std::byte> bytes;  // the value as it stands in the file, behind its type
  };
  std::span<const Entry> entries() const { return entries_; }

 private:
  // The bytes of the value to be written for `key`, empty; a new entry if there is none yet.
  std::vector<std::byte>& reset(std::string_view key, ValueType type);
  // The same for an array, with the element type and the count in place.
  std::vector<std::byte>& reset_array(std::string_view key, ValueType element, uint64_t count);

  std::vector<Entry> entries_;
  std::map<std::string, size_t, std::less<>> positions_;  // in entries_, by key
};

struct GgufTensorInfo {
  std::string name;
  std::vector<uint64_t> dims;  // fastest first; trailing 1s are dropped when written
  TensorType type;
  uint64_t n_bytes() const;  // of the data, without padding
};

class GgufWriter {
 public:
  // Creates `path` and writes the header. The file is one shard with an alignment of 32, so the
  // keys general.alignment, split.no, split.count and split.tensors.count are left out of it.
  // CHECKs that names are unique, 1 to 63 bytes of printable ASCII, that there are 1 to 4
  // dimensions, none of them 0, and whole blocks in a row. kIo as OutputFile.
  static Result<GgufWriter> create(const std::string& path, const GgufMetadata& metadata,
                                   std::span<const GgufTensorInfo> tensors);

  // The next bytes of the current tensor's data. A tensor may come in pieces; when it is complete
  // its padding is written and the next one begins. CHECKs that no tensor overruns.
  Status write(std::span<const std::byte> data);
  // CHECKs that every tensor is complete, then renames the file to its path.
  Status commit();
  uint64_t size() const { return file_.size(); }

 private:
  GgufWriter(OutputFile file, std::span<const GgufTensorInfo> tensors);

  OutputFile file_;
  std::vector<uint64_t> sizes_;  // of the tensors' data, in order
  size_t current_ = 0;
  uint64_t written_ = 0;  // bytes of the current tensor
};

// Bytes of the data section: every tensor rounded up to the alignment of 32.
uint64_t gguf_data_bytes(std::span<const GgufTensorInfo> tensors);

}  // namespace hf2q
