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

// 4 MiB as F32: larger chunks hide the hand-over no better.
constexpr uint64_t kMaxChunkElements = 1 << 20;
// One in work, one ready to be written, one to begin with.
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
std::vector<Chunk> make_chunks(std::span<const OutputTensor> tensors, uint64_t chunk_elements) {
  std::vector<Chunk> chunks;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const OutputTensor& tensor = tensors[i];
    const uint64_t step = std::max<uint64_t>(1, chunk_elements / tensor.dims[0]);
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

size_t encoded_bytes(const Chunk& chunk) {
  return chunk.n_rows * row_bytes(chunk.tensor->type, chunk.tensor->dims[0]);
}

uint64_t widest_row(std::span<const OutputTensor> tensors) {
  uint64_t widest = 1;
  for (const OutputTensor& tensor : tensors) widest = std::max(widest, tensor.dims[0]);
  return widest;
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

// Encodes the rows of `chunk` into `out`, by way of `row`; both have room already.
Status encode(const Chunk& chunk, std::vector<float>& row, std::vector<std::byte>& out) {
  const OutputTensor& tensor = *chunk.tensor;
  const uint64_t columns = tensor.dims[0];
  const RowCodec& from = row_codec(chunk.segment->type);
  const RowCodec& to = row_codec(tensor.type);
  const std::span<const std::byte> source = source_bytes(chunk);
  const size_t from_bytes = row_bytes(from.type, columns);
  const size_t to_bytes = row_bytes(to.type, columns);
  out.resize(encoded_bytes(chunk));
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
// written. Memory is allocated before there are threads, so that what they need is there.
class Pipeline {
 public:
  Pipeline(std::span<const Chunk> chunks, const PipelineSize& size, uint64_t widest_row)
      : chunks_(chunks),
        slots_(std::min(size.n_slots, std::max<size_t>(1, chunks.size()))),
        rows_(size.n_threads) {
    size_t slot_bytes = 0;
    for (const Chunk& chunk : chunks) slot_bytes = std::max(slot_bytes, encoded_bytes(chunk));
    for (Slot& slot : slots_) slot.bytes.reserve(slot_bytes);
    for (std::vector<float>& row : rows_) row.reserve(widest_row);
    start_threads(threads_, size.n_threads, [this] { work(); });
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

  // Hands chunk `i` (ascending, each once) to `write` when it is encoded; the caller encodes it
  // where the system gave no thread.
  template <class Write>
  Status consume(size_t i, const Write& write) {
    Slot& slot = slots_[i % slots_.size()];
    if (threads_.empty()) encode_chunk(i, rows_.front());
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

  void encode_chunk(size_t i, std::vector<float>& row) {
    Slot& slot = slots_[i % slots_.size()];
    slot.encoded = encode(chunks_[i], row, slot.bytes);
    {
      const std::lock_guard lock(mutex_);
      slot.chunk = i;
      slot.ready = true;
    }
    changed_.notify_all();
  }

  void work() {
    std::unique_lock lock(mutex_);
    std::vector<float>& row = rows_[n_working_++];
    while (true) {
      changed_.wait(lock, [&] {
        return stopping_ || next_ == chunks_.size() || next_ < n_written_ + slots_.size();
      });
      if (stopping_ || next_ == chunks_.size()) return;
      const size_t i = next_++;
      lock.unlock();
      encode_chunk(i, row);
      lock.lock();
    }
  }

  std::span<const Chunk> chunks_;
  std::vector<Slot> slots_;
  std::vector<std::vector<float>> rows_;  // one for each thread
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t n_working_ = 0;  // threads that have begun
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

PipelineSize pipeline_size(size_t n_threads, uint64_t widest_row) {
  CHECK(n_threads > 0 && widest_row > 0);
  constexpr uint64_t kBudgetElements = kPipelineBytes / sizeof(float);
  // Each thread has a decoded row beside its chunks, of which each holds at least one row.
  const uint64_t least_elements = (kChunksPerThread + 1) * widest_row;
  const uint64_t most_threads = std::max<uint64_t>(1, kBudgetElements / least_elements);
  PipelineSize size;
  size.n_threads = std::min<uint64_t>(n_threads, most_threads);
  size.n_slots = kChunksPerThread * size.n_threads;
  const uint64_t share = kBudgetElements / size.n_threads;
  const uint64_t room = share > widest_row ? (share - widest_row) / kChunksPerThread : 0;
  size.chunk_elements = std::max(widest_row, std::min(room, kMaxChunkElements));
  return size;
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
  const uint64_t widest = widest_row(tensors);
  const PipelineSize size =
      pipeline_size(options.n_threads > 0 ? options.n_threads : usable_processors(), widest);
  const std::vector<Chunk> chunks = make_chunks(tensors, size.chunk_elements);
  Pipeline pipeline(chunks, size, widest);
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
