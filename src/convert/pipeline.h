#pragma once
// Encodes tensors and streams them into a GGUF file.
//
// Rows are independent, so a tensor is cut into chunks of rows; threads take chunks in file order,
// also across tensors, and the calling thread writes them in file order. At most a few chunks per
// thread are in memory, whatever the size of the tensors, and bytes do not depend on the number of
// threads.

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"
#include "convert/output_tensor.h"
#include "gguf/writer.h"

namespace hf2q {

struct Progress {
  size_t tensor = 0;  // the one that is being written; n_tensors at the end
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;  // of tensor data in the file
};

struct WriteOptions {
  size_t n_threads = 0;                              // 0: one per processor
  std::function<void(const Progress&)> on_progress;  // after each chunk, from the calling thread
};

// Fails as GgufWriter does, and with kCorrupt when a row cannot be encoded: a value that is not
// finite or too large for the type, naming the source's file, tensor and row; or an importance that
// is too large, naming the tensor. No file is left then.
Status write_gguf(const std::string& path, const GgufMetadata& metadata,
                  std::span<const OutputTensor> tensors, const WriteOptions& options);

std::vector<GgufTensorInfo> tensor_infos(std::span<const OutputTensor> tensors);

}  // namespace hf2q
