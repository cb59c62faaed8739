#include "gguf/writer.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <optional>

#include "base/check.h"
#include "base/checked.h"
#include "gguf/limits.h"
#include "gguf/name_index.h"

namespace hf2q {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

constexpr uint32_t kVersion = 3;
// They describe the file, not the model: see GgufWriter::create.
constexpr std::string_view kContainerKeys[] = {"general.alignment", "split.no", "split.count",
                                               "split.tensors.count"};

using Bytes = std::vector<std::byte>;

void append(Bytes& to, std::span<const std::byte> bytes) {
  const size_t end = to.size();
  to.resize(end + bytes.size());
  std::ranges::copy(bytes, to.begin() + static_cast<ptrdiff_t>(end));
}

template <class T>
void append_scalar(Bytes& to, T value) {
  append(to, std::as_bytes(std::span(&value, 1)));
}

void append_string(Bytes& to, std::string_view string) {
  append_scalar(to, uint64_t{string.size()});
  append(to, std::as_bytes(std::span(string)));
}

bool is_name(std::string_view name, size_t max_bytes) {
  return !name.empty() && name.size() <= max_bytes && find_unprintable(name) == name.size();
}

uint64_t padded(uint64_t size) {
  const std::optional<uint64_t> rounded = checked_round_up(size, kGgufAlignment);
  CHECK(rounded);
  return *rounded;
}

void check_infos(std::span<const GgufTensorInfo> tensors) {
  NameIndex names;
  for (const GgufTensorInfo& tensor : tensors) {
    CHECK(is_name(tensor.name, kGgufMaxTensorNameBytes));
    CHECK(!tensor.dims.empty() && tensor.dims.size() <= kGgufMaxDims);
    CHECK(std::ranges::count(tensor.dims, 0U) == 0);
    names.add(tensor.name);
  }
  CHECK(!names.sort());
}

std::vector<const GgufMetadata::Entry*> model_entries(const GgufMetadata& metadata) {
  std::vector<const GgufMetadata::Entry*> kept;
  for (const GgufMetadata::Entry& entry : metadata.entries()) {
    if (std::ranges::count(kContainerKeys, entry.key) == 0) kept.push_back(&entry);
  }
  return kept;
}

void append_info(Bytes& to, const GgufTensorInfo& tensor, uint64_t offset) {
  size_t n_dims = tensor.dims.size();
  while (n_dims > 1 && tensor.dims[n_dims - 1] == 1) --n_dims;
  append_string(to, tensor.name);
  append_scalar(to, static_cast<uint32_t>(n_dims));
  append(to, std::as_bytes(std::span(tensor.dims).first(n_dims)));
  append_scalar(to, static_cast<uint32_t>(tensor.type));
  append_scalar(to, offset);
}

Bytes header_bytes(const GgufMetadata& metadata, std::span<const GgufTensorInfo> tensors) {
  const std::vector<const GgufMetadata::Entry*> entries = model_entries(metadata);
  Bytes header;
  append(header, std::as_bytes(std::span("GGUF", 4)));
  append_scalar(header, kVersion);
  append_scalar(header, uint64_t{tensors.size()});
  append_scalar(header, uint64_t{entries.size()});
  for (const GgufMetadata::Entry* entry : entries) {
    append_string(header, entry->key);
    append_scalar(header, static_cast<uint32_t>(entry->type));
    append(header, entry->bytes);
  }
  uint64_t offset = 0;
  for (const GgufTensorInfo& tensor : tensors) {
    append_info(header, tensor, offset);
    offset += padded(tensor.n_bytes());
  }
  header.resize(padded(header.size()));
  return header;
}

}  // namespace

std::vector<std::byte>& GgufMetadata::reset(std::string_view key, ValueType type) {
  CHECK(is_name(key, kGgufMaxKeyBytes));
  const auto found = positions_.find(key);
  if (found == positions_.end()) {
    positions_.emplace(key, entries_.size());
    return entries_.emplace_back(Entry{std::string(key), type, {}}).bytes;
  }
  Entry& entry = entries_[found->second];
  entry.type = type;
  entry.bytes.clear();
  return entry.bytes;
}

std::vector<std::byte>& GgufMetadata::reset_array(std::string_view key, ValueType element,
                                                  uint64_t count) {
  Bytes& bytes = reset(key, ValueType::kArray);
  append_scalar(bytes, static_cast<uint32_t>(element));
  append_scalar(bytes, count);
  return bytes;
}

void GgufMetadata::set_u32(std::string_view key, uint32_t value) {
  append_scalar(reset(key, ValueType::kU32), value);
}

void GgufMetadata::set_i32(std::string_view key, int32_t value) {
  append_scalar(reset(key, ValueType::kI32), value);
}

void GgufMetadata::set_f32(std::string_view key, float value) {
  append_scalar(reset(key, ValueType::kF32), value);
}

void GgufMetadata::set_bool(std::string_view key, bool value) {
  append_scalar(reset(key, ValueType::kBool), static_cast<uint8_t>(value));
}

void GgufMetadata::set_string(std::string_view key, std::string_view value) {
  append_string(reset(key, ValueType::kString), value);
}

void GgufMetadata::set_integers(std::string_view key, std::span<const int32_t> values) {
  append(reset_array(key, ValueType::kI32, values.size()), std::as_bytes(values));
}

void GgufMetadata::set_f32s(std::string_view key, std::span<const float> values) {
  append(reset_array(key, ValueType::kF32, values.size()), std::as_bytes(values));
}

void GgufMetadata::set_bools(std::string_view key, const std::vector<bool>& values) {
  Bytes& bytes = reset_array(key, ValueType::kBool, values.size());
  for (const bool value : values) append_scalar(bytes, static_cast<uint8_t>(value));
}

void GgufMetadata::set_strings(std::string_view key, std::span<const std::string_view> values) {
  Bytes& bytes = reset_array(key, ValueType::kString, values.size());
  for (const std::string_view value : values) append_string(bytes, value);
}

void GgufMetadata::set(std::string_view key, const Value& value) {
  Bytes& bytes = value.type == ValueType::kArray ? reset_array(key, value.element, value.count)
                                                 : reset(key, value.type);
  append(bytes, value.bytes);
}

void GgufMetadata::remove(std::string_view key) {
  const auto found = positions_.find(key);
  if (found == positions_.end()) return;
  const size_t removed = found->second;
  positions_.erase(found);
  entries_.erase(entries_.begin() + static_cast<ptrdiff_t>(removed));
  for (auto& [name, position] : positions_) {
    if (position > removed) --position;
  }
}

uint64_t GgufTensorInfo::n_bytes() const {
  CHECK(!dims.empty());
  const std::optional<uint64_t> n_rows = checked_product(std::span(dims).subspan(1));
  CHECK(n_rows);
  const std::optional<uint64_t> size = checked_mul(*n_rows, row_bytes(type, dims[0]));
  CHECK(size);
  return *size;
}

uint64_t gguf_data_bytes(std::span<const GgufTensorInfo> tensors) {
  uint64_t sum = 0;
  for (const GgufTensorInfo& tensor : tensors) sum += padded(tensor.n_bytes());
  return sum;
}

GgufWriter::GgufWriter(OutputFile file, std::span<const GgufTensorInfo> tensors)
    : file_(std::move(file)) {
  std::ranges::transform(tensors, std::back_inserter(sizes_), &GgufTensorInfo::n_bytes);
}

Result<GgufWriter> GgufWriter::create(const std::string& path, const GgufMetadata& metadata,
                                      std::span<const GgufTensorInfo> tensors) {
  check_infos(tensors);
  TRY(file, OutputFile::create(path));
  GgufWriter writer(std::move(file), tensors);
  TRY_OK(writer.file_.write(header_bytes(metadata, tensors)));
  return writer;
}

Status GgufWriter::write(std::span<const std::byte> data) {
  if (data.empty()) return Ok{};
  CHECK(current_ < sizes_.size() && data.size() <= sizes_[current_] - written_);
  TRY_OK(file_.write(data));
  written_ += data.size();
  if (written_ < sizes_[current_]) return Ok{};
  TRY_OK(file_.write_zeros(padded(written_) - written_));
  ++current_;
  written_ = 0;
  return Ok{};
}

Status GgufWriter::commit() {
  CHECK(current_ == sizes_.size());
  return file_.commit();
}

}  // namespace hf2q
