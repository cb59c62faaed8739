#include "convert/pipeline.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "base/mapped_file.h"
#include "base/parallel.h"
#include "quant/row_codec.h"

namespace hf2q {
namespace {

// Elements of one chunk: 4 MiB as F32, large enough to hide the hand-over, small enough that a few
// for each thread stay far below any memory bound.
constexpr uint64_t kChunkElements = 1 << 20;
constexpr size_t kChunksPerThread = 3;

struct Chunk {
  const OutputTensor* tensor;
  size_t tensor_index;
  uint64_t first_row;  // of the tensor
  uint64_t n_rows;
  const Segment* segment;
  uint64_t segment_row;  // first row within the segment
};

// Rows of one chunk never cross a segment.
std::vector<Chunk> make_chunks(std::span<const OutputTensor> tensors) {
  std::vector<Chunk> chunks;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const OutputTensor& tensor = tensors[i];
    const uint64_t step = std::max<uint64_t>(1, kChunkElements / tensor.dims[0]);
    uint64_t row = 0;
    for (const Segment& segment : tensor.segments) {
      const uint64_t n = segment.data.size() / row_bytes(segment.type, tensor.dims[0]);
      for (uint64_t at = 0; at < n; at += step) {
        const uint64_t n_rows = std::min(step, n - at);
        chunks.push_back({&tensor, i, row, n_rows, &segment, at});
        row += n_rows;
      }
    }
    CHECK(row == tensor.n_rows());
  }
  return chunks;
}

std::span<const std::byte> source_bytes(const Chunk& chunk) {
  const size_t bytes = row_bytes(chunk.segment->type, chunk.tensor->dims[0]);
  return chunk.segment->data.subspan(chunk.segment_row * bytes, chunk.n_rows * bytes);
}

const float* importance_of(const OutputTensor& tensor, uint64_t row) {
  if (tensor.importance.empty()) return nullptr;
  const uint64_t rows_per_matrix = tensor.dims.size() > 1 ? tensor.dims[1] : 1;
  return tensor.importance.data() + row / rows_per_matrix * tensor.dims[0];
}

bool all_finite(std::span<const float> row) {
  return std::ranges::all_of(row, [](float x) { return std::isfinite(x); });
}

// Row `i` of `chunk`, by what its source and its tensor are called.
std::string name_of_row(const Chunk& chunk, uint64_t i) {
  const Segment& source = *chunk.segment;
  return fmt::format("{}{}{}{}: row {}", source.file, source.file.empty() ? "" : ": ", source.name,
                     source.name == chunk.tensor->name ? "" : " (" + chunk.tensor->name + ")",
                     chunk.segment_row + i);
}

// Why a row could not be encoded.
Error bad_row(const Chunk& chunk, uint64_t i, std::span<const float> row, const float* importance) {
  if (!all_finite(row)) {
    return error(ErrorCode::kCorrupt, "{}: finite values expected, found NaN or infinity",
                 name_of_row(chunk, i));
  }
  const RowCodec& to = row_codec(chunk.tensor->type);
  std::vector<std::byte> encoded(row_bytes(to.type, row.size()));
  if (importance != nullptr && to.encode(row.data(), row.size(), nullptr, encoded.data())) {
    return error(ErrorCode::kCorrupt,
                 "importance of {}: values whose products with the weights stay finite expected, "
                 "found up to {}",
                 chunk.tensor->name, *std::max_element(importance, importance + row.size()));
  }
  return error(ErrorCode::kCorrupt, "{}: values within the range of {} expected, found {} to {}",
               name_of_row(chunk, i), name_of(to.type), std::ranges::min(row),
               std::ranges::max(row));
}

// Encodes the rows of `chunk` into `out`.
Status encode(const Chunk& chunk, std::vector<float>& row, std::vector<std::byte>& out) {
  const OutputTensor& tensor = *chunk.tensor;
  const uint64_t columns = tensor.dims[0];
  const RowCodec& from = row_codec(chunk.segment->type);
  const RowCodec& to = row_codec(tensor.type);
  const std::span<const std::byte> source = source_bytes(chunk);
  const size_t from_bytes = row_bytes(from.type, columns);
  const size_t to_bytes = row_bytes(to.type, columns);
  out.resize(chunk.n_rows * to_bytes);
  const bool copy = from.type == to.type && is_quantized(to.type);
  if (copy) std::copy(source.begin(), source.end(), out.begin());
  row.resize(columns);
  for (uint64_t i = 0; i < chunk.n_rows; ++i) {
    from.decode(source.data() + i * from_bytes, columns, row.data());
    if (copy) {
      if (!all_finite(row)) return bad_row(chunk, i, row, nullptr);
      continue;
    }
    const float* importance = importance_of(tensor, chunk.first_row + i);
    if (!to.encode(row.data(), columns, importance, out.data() + i * to_bytes)) {
      return bad_row(chunk, i, row, importance);
    }
  }
  if (chunk.segment->mapped) release_mapped_pages(source);
  return Ok{};
}

// Chunks in flight: slot i % n_slots holds chunk i, from the moment a thread takes it until it is
// written.
class Pipeline {
 public:
  Pipeline(std::span<const Chunk> chunks, size_t n_threads)
      : chunks_(chunks), slots_(n_threads * kChunksPerThread) {
    for (size_t i = 0; i < n_threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Pipeline() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Hands chunk `i` (ascending, each once) to `write` when it is encoded.
  template <class Write>
  Status consume(size_t i, const Write& write) {
    Slot& slot = slots_[i % slots_.size()];
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return slot.chunk == i && slot.ready; });
    }
    TRY_OK(slot.encoded);
    TRY_OK(write(std::span<const std::byte>(slot.bytes)));
    {
      const std::lock_guard lock(mutex_);
      slot.ready = false;
      ++n_written_;
    }
    changed_.notify_all();
    return Ok{};
  }

 private:
  struct Slot {
    size_t chunk = 0;
    bool ready = false;
    Status encoded = Ok{};
    std::vector<std::byte> bytes;
  };

  void work() {
    std::vector<float> row;
    while (true) {
      size_t i = 0;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] {
          return stopping_ || next_ == chunks_.size() || next_ < n_written_ + slots_.size();
        });
        if (stopping_ || next_ == chunks_.size()) return;
        i = next_++;
      }
      Slot& slot = slots_[i % slots_.size()];
      slot.encoded = encode(chunks_[i], row, slot.bytes);
      {
        const std::lock_guard lock(mutex_);
        slot.chunk = i;
        slot.ready = true;
      }
      changed_.notify_all();
    }
  }

  std::span<const Chunk> chunks_;
  std::vector<Slot> slots_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t next_ = 0;
  size_t n_written_ = 0;
  bool stopping_ = false;
};

}  // namespace

uint64_t OutputTensor::n_rows() const {
  uint64_t rows = 1;
  for (size_t i = 1; i < dims.size(); ++i) rows *= dims[i];
  return rows;
}

std::vector<GgufTensorInfo> tensor_infos(std::span<const OutputTensor> tensors) {
  std::vector<GgufTensorInfo> infos;
  for (const OutputTensor& tensor : tensors)
    infos.push_back({tensor.name, tensor.dims, tensor.type});
  return infos;
}

Status write_gguf(const std::string& path, const GgufMetadata& metadata,
                  std::span<const OutputTensor> tensors, const WriteOptions& options) {
  const std::vector<GgufTensorInfo> infos = tensor_infos(tensors);
  TRY(writer, GgufWriter::create(path, metadata, infos));
  Progress progress;
  for (const GgufTensorInfo& info : infos) progress.bytes_total += info.n_bytes();
  const std::vector<Chunk> chunks = make_chunks(tensors);
  Pipeline pipeline(chunks, options.n_threads > 0 ? options.n_threads : usable_processors());
  for (size_t i = 0; i < chunks.size(); ++i) {
    TRY_OK(pipeline.consume(i, [&](std::span<const std::byte> bytes) {
      progress.bytes_done += bytes.size();
      return writer.write(bytes);
    }));
    progress.tensor = chunks[i].tensor_index;
    if (options.on_progress) options.on_progress(progress);
  }
  TRY_OK(writer.commit());
  progress.tensor = tensors.size();
  if (options.on_progress) options.on_progress(progress);
  return Ok{};
}

}  // namespace hf2q
