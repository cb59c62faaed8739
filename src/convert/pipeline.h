#pragma once
// Encodes tensors and streams them into a GGUF file.
//
// Rows are independent, so a tensor is cut into chunks of rows; threads take chunks in file order,
// also across tensors, and the calling thread writes them in file order. At most
// kPipelineBytes of chunks are in memory, whatever the size of the tensors and the number of
// threads, and bytes do not depend on the number of threads.

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"
#include "convert/output_tensor.h"
#include "gguf/writer.h"

namespace hf2q {

inline constexpr uint64_t kPipelineBytes = uint64_t{256} << 20;

// How the pipeline is laid out: threads that encode, and chunks that are in memory at once.
struct PipelineSize {
  size_t n_threads = 1;
  size_t n_slots = 1;
  uint64_t chunk_elements = 1;  // of one chunk, rows rounded down to at least one
};

// For at most `n_threads` threads (1 or more) and rows of up to `widest_row` elements: chunks, at 4
// bytes per element, and one decoded row for each thread take at most kPipelineBytes. Chunks become
// smaller first, then threads fewer; one thread is left for rows that alone take more.
PipelineSize pipeline_size(size_t n_threads, uint64_t widest_row);

struct Progress {
  size_t tensor = 0;  // the one that is being written; n_tensors at the end
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;  // of tensor data in the file
};

struct WriteOptions {
  size_t n_threads = 0;                              // 0: one per processor
  std::function<void(const Progress&)> on_progress;  // after each chunk, from the calling thread
};

// Goes on with fewer threads where the system gives no more. Fails as GgufWriter does, and with
// kCorrupt when a row cannot be encoded: a value that is not finite or too large for the type,
// naming the source's file, tensor and row; or an importance that is too large, naming the tensor.
// No file is left then.
Status write_gguf(const std::string& path, const GgufMetadata& metadata,
                  std::span<const OutputTensor> tensors, const WriteOptions& options);

std::vector<GgufTensorInfo> tensor_infos(std::span<const OutputTensor> tensors);

}  // namespace hf2q
