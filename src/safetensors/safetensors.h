#pragma once
// Reads safetensors files and sharded checkpoints; writes single files.
//
//   u64 LE header length N (2 to 100,000,000) | N bytes of JSON, first byte '{' | data
//   header: {"name": {"dtype": "BF16", "shape": [..], "data_offsets": [begin, end]}, ..,
//            "__metadata__": {"key": "value", ..}}
// Sorted by begin, the tensors tile the data exactly: no hole, no overlap, nothing behind the last.
// Offsets are relative to the end of the header; a tensor may start at any address. Spaces may
// follow the object. Names are 1 to 65,536 bytes of UTF-8 without NUL, each once; an unknown field
// of a tensor is an error.
//
// A checkpoint is a folder with model.safetensors, or with model.safetensors.index.json:
//   {"metadata": {..}, "weight_map": {"name": "model-00001-of-00002.safetensors", ..}}
// whose names are those of the parts, each in the part that the index says.

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

namespace hf2q {

// Every dtype of the format; this program computes with the first three.
enum class Dtype {
  kF32,
  kF16,
  kBF16,
  kF64,
  kI8,
  kU8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
  kBool,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kF6E2M3,
  kF6E3M2,
  kF4,
  kC64,
};

std::string_view name_of(Dtype dtype);  // as in the file: "BF16"
uint64_t bits_of(Dtype dtype);

struct SourceTensor {
  std::string name;
  Dtype dtype;
  std::vector<uint64_t> shape;      // slowest first, as in PyTorch; empty for a scalar
  std::span<const std::byte> data;  // may be unaligned

  uint64_t n_elements() const;  // fits 64 bits, as does the number of bits, in every parsed tensor
};

class SafetensorsFile {
 public:
  // Errors name the file, the tensor and what is wrong with it.
  static Result<SafetensorsFile> open(const std::string& path);
  // One file that lies in memory; views point into `bytes`. `name` stands for the path in errors.
  static Result<SafetensorsFile> parse(std::span<const std::byte> bytes, const std::string& name);

  std::span<const SourceTensor> tensors() const { return tensors_; }  // in data order
  const SourceTensor* find(std::string_view name) const;              // nullptr when absent
  std::span<const std::pair<std::string, std::string>> metadata() const { return metadata_; }
  const MappedFile* file() const { return file_.empty() ? nullptr : &file_.front(); }

 private:
  SafetensorsFile() = default;
  std::vector<MappedFile> file_;  // one, or none after parse()
  std::vector<SourceTensor> tensors_;
  std::vector<std::pair<std::string, std::string>> metadata_;
  std::unordered_map<std::string_view, size_t> index_;
};

class Checkpoint {
 public:
  // A folder as above; the index wins where both are there. Refused are part names with a path
  // separator, ':' or "..", and files that are links out of the folder, unless they lead into the
  // `blobs` of the download cache MODEL/{blobs, snapshots/REVISION} whose REVISION is the folder.
  // An error names the folder or the part; kNotFound when either is missing, kUnsupported for a
  // link that is refused.
  static Result<Checkpoint> open(const std::string& folder);

  std::span<const SafetensorsFile> files() const { return files_; }
  const SourceTensor* find(std::string_view name) const;  // nullptr when absent
  // All tensors, by file, in data order.
  std::vector<const SourceTensor*> tensors() const;
  uint64_t data_bytes() const;
  // Of the file that holds a tensor of this checkpoint.
  const std::string& path_of(const SourceTensor& tensor) const;
  // Tells the kernel that pages are needed soon, or are done with (a part of a tensor's data, too).
  void will_need(const SourceTensor& tensor) const;
  void release(std::span<const std::byte> data) const;

 private:
  Checkpoint() = default;
  std::vector<SafetensorsFile> files_;
};

// Writes `tensors` in the given order, header padded to 8 bytes with spaces, atomically
// (OutputFile). Fails with kInvalidArgument for names and metadata that a reader would refuse, or
// kIo; CHECKs that data and shape agree.
Status write_safetensors(const std::string& path, std::span<const SourceTensor> tensors,
                         std::span<const std::pair<std::string, std::string>> metadata = {});

}  // namespace hf2q
