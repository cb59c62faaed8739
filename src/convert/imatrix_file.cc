#include "convert/imatrix_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/mapped_file.h"
#include "base/quote.h"
#include "gguf/reader.h"
#include "gguf/writer.h"

namespace hf2q {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr std::string_view kSumsSuffix = ".in_sum2";
constexpr std::string_view kCountsSuffix = ".counts";
constexpr size_t kMaxName = 63;  // of a tensor in a GGUF file
constexpr float kMaxCount = 0x1p53F;

Error corrupt(const std::string& file, std::string_view where, std::string_view what) {
  return error(ErrorCode::kCorrupt, "{}: {}: {}", file, where, what);
}

Result<std::vector<float>> read_f32s(std::span<const std::byte> bytes, const std::string& file,
                                     std::string_view where) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  for (const float value : values) {
    if (!std::isfinite(value) || value < 0.0F) {
      return corrupt(file, where, fmt::format("finite values from 0 expected, found {}", value));
    }
  }
  return values;
}

// The legacy form.

class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, const std::string& file) : rest_(bytes), file_(file) {}

  bool at_end() const { return rest_.empty(); }
  size_t remaining() const { return rest_.size(); }

  Result<int32_t> number(std::string_view what) {
    TRY(bytes, take(sizeof(int32_t), what));
    int32_t value = 0;
    std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }

  Result<std::span<const std::byte>> take(size_t n, std::string_view what) {
    if (n > rest_.size()) {
      return corrupt(file_, what, fmt::format("{} bytes expected, found {}", n, rest_.size()));
    }
    const auto taken = rest_.first(n);
    rest_ = rest_.subspan(n);
    return taken;
  }

  // A count of items of `item_bytes` each, between `min` and what the rest of the file can hold.
  Result<size_t> count(int32_t min, size_t item_bytes, std::string_view what) {
    TRY(value, number(what));
    const size_t most = rest_.size() / item_bytes;
    if (value < min || static_cast<size_t>(value) > most) {
      return corrupt(file_, what, fmt::format("{} to {} expected, found {}", min, most, value));
    }
    return static_cast<size_t>(value);
  }

  Result<std::string> text(size_t n, std::string_view what) {
    TRY(bytes, take(n, what));
    std::string text(reinterpret_cast<const char*>(bytes.data()), n);
    const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7F; };
    if (std::ranges::any_of(text, is_control)) {
      return corrupt(file_, what, "text without control characters expected");
    }
    return text;
  }

 private:
  std::span<const std::byte> rest_;
  const std::string& file_;
};

Result<std::string> read_legacy_name(Cursor& cursor, const std::string& file,
                                     std::string_view where) {
  TRY(length, cursor.count(1, 1, where));
  if (length > kMaxName) {
    return corrupt(file, where,
                   fmt::format("a name of at most {} bytes expected, found {}", kMaxName, length));
  }
  return cursor.text(length, where);
}

Result<ImatrixEntry> read_legacy_entry(Cursor& cursor, const std::string& file,
                                       const std::string& weight) {
  TRY(n_calls, cursor.number(weight));
  TRY(n_values, cursor.count(1, sizeof(float), weight));
  TRY(bytes, cursor.take(n_values * sizeof(float), weight));
  TRY(sums, read_f32s(bytes, file, weight));
  return ImatrixEntry{std::move(sums), {std::max(n_calls, 1)}};
}

Status read_legacy_tail(Cursor& cursor, const std::string& file, Imatrix& imatrix) {
  TRY(chunk_count, cursor.number("chunk count"));
  TRY(length, cursor.count(0, 1, "name of the data set"));
  TRY(dataset, cursor.text(length, "name of the data set"));
  if (!cursor.at_end()) {
    return corrupt(file, "name of the data set",
                   fmt::format("the end of the file expected, found {} bytes", cursor.remaining()));
  }
  imatrix.chunk_count = static_cast<uint32_t>(std::max(chunk_count, 0));
  if (!dataset.empty()) imatrix.datasets.push_back(std::move(dataset));
  return Ok{};
}

Result<Imatrix> parse_legacy(std::span<const std::byte> bytes, const std::string& file) {
  constexpr size_t kEntryBytes = 3 * sizeof(int32_t) + 1 + sizeof(float);  // at least
  Cursor cursor(bytes, file);
  Imatrix imatrix;
  TRY(n_entries, cursor.count(1, kEntryBytes, "number of entries"));
  for (size_t i = 0; i < n_entries; ++i) {
    TRY(weight, read_legacy_name(cursor, file, fmt::format("entry {}", i)));
    TRY(entry, read_legacy_entry(cursor, file, weight));
    if (!imatrix.entries.emplace(weight, std::move(entry)).second) {
      return corrupt(file, weight, "one entry expected, found two");
    }
  }
  if (!cursor.at_end()) TRY_OK(read_legacy_tail(cursor, file, imatrix));
  return imatrix;
}

// The GGUF form.

std::optional<std::string_view> without_suffix(std::string_view name, std::string_view suffix) {
  if (!name.ends_with(suffix) || name.size() == suffix.size()) return std::nullopt;
  return name.substr(0, name.size() - suffix.size());
}

Result<const GgufTensor*> partner_of(const GgufFile& gguf, const std::string& file,
                                     std::string_view weight, std::string_view suffix) {
  const std::string name = fmt::format("{}{}", weight, suffix);
  const GgufTensor* partner = gguf.find_tensor(name);
  if (partner == nullptr) return corrupt(file, name, "missing");
  return partner;
}

Result<std::vector<float>> read_tensor(const GgufTensor& tensor, const std::string& file) {
  if (tensor.type->id != static_cast<uint32_t>(TensorType::kF32)) {
    return corrupt(file, tensor.name,
                   fmt::format("type f32 expected, found {}", tensor.type->name));
  }
  return read_f32s(tensor.data, file, tensor.name);
}

Result<std::vector<int64_t>> round_counts(std::span<const float> values, const std::string& file,
                                          std::string_view where) {
  std::vector<int64_t> counts;
  counts.reserve(values.size());
  for (const float value : values) {
    if (value > kMaxCount) {
      return corrupt(file, where, fmt::format("counts to 2^53 expected, found {}", value));
    }
    counts.push_back(std::llround(value));
  }
  return counts;
}

Result<ImatrixEntry> read_entry(const GgufTensor& sums, const GgufTensor& counts,
                                const std::string& file) {
  const std::array<uint64_t, 4> expected = {1, sums.dims[1], 1, 1};
  if (counts.dims != expected || sums.dims[2] != 1 || sums.dims[3] != 1) {
    return corrupt(file, counts.name,
                   fmt::format("shape [1, {}] expected beside [{}, {}, {}, {}], found "
                               "[{}, {}, {}, {}]",
                               sums.dims[1], sums.dims[0], sums.dims[1], sums.dims[2], sums.dims[3],
                               counts.dims[0], counts.dims[1], counts.dims[2], counts.dims[3]));
  }
  TRY(sum_values, read_tensor(sums, file));
  TRY(count_values, read_tensor(counts, file));
  TRY(rounded, round_counts(count_values, file, counts.name));
  return ImatrixEntry{std::move(sum_values), std::move(rounded)};
}

Status read_metadata(const GgufFile& gguf, const std::string& file, Imatrix& imatrix) {
  const Value* type = gguf.find("general.type");
  if (type != nullptr && type->as_string() != "imatrix") {
    return corrupt(file, "general.type",
                   fmt::format("\"imatrix\" expected, found {}",
                               quote(type->as_string().value_or("another type of value"))));
  }
  TRY(datasets, gguf.get_strings("imatrix.datasets"));
  TRY(chunk_count, gguf.get_u32("imatrix.chunk_count"));
  TRY(chunk_size, gguf.get_u32("imatrix.chunk_size"));
  imatrix.datasets.assign(datasets.begin(), datasets.end());
  imatrix.chunk_count = chunk_count;
  imatrix.chunk_size = chunk_size;
  return Ok{};
}

Result<Imatrix> parse_gguf(std::span<const std::byte> bytes, const std::string& file) {
  TRY(gguf, GgufFile::parse(bytes, file));
  Imatrix imatrix;
  TRY_OK(read_metadata(gguf, file, imatrix));
  for (const GgufTensor& tensor : gguf.tensors()) {
    if (const auto weight = without_suffix(tensor.name, kSumsSuffix)) {
      TRY(counts, partner_of(gguf, file, *weight, kCountsSuffix));
      TRY(entry, read_entry(tensor, *counts, file));
      imatrix.entries.emplace(*weight, std::move(entry));
    } else if (const auto counted = without_suffix(tensor.name, kCountsSuffix)) {
      TRY_OK(partner_of(gguf, file, *counted, kSumsSuffix));
    }
  }
  if (imatrix.entries.empty()) return corrupt(file, "tensors", "at least one entry expected");
  return imatrix;
}

// Writing.

Status check_names(const Imatrix& imatrix) {
  for (const auto& [weight, entry] : imatrix.entries) {
    if (weight.empty() || weight.size() + kSumsSuffix.size() > kMaxName) {
      return error(ErrorCode::kInvalidArgument,
                   "importance of {}: a name of 1 to {} bytes expected, found {}", weight,
                   kMaxName - kSumsSuffix.size(), weight.size());
    }
  }
  return Ok{};
}

GgufMetadata metadata_of(const Imatrix& imatrix) {
  const std::vector<std::string_view> datasets(imatrix.datasets.begin(), imatrix.datasets.end());
  GgufMetadata metadata;
  metadata.set_string("general.type", "imatrix");
  metadata.set_strings("imatrix.datasets", datasets);
  metadata.set_u32("imatrix.chunk_count", imatrix.chunk_count);
  metadata.set_u32("imatrix.chunk_size", imatrix.chunk_size);
  return metadata;
}

std::vector<GgufTensorInfo> tensors_of(const Imatrix& imatrix) {
  std::vector<GgufTensorInfo> tensors;
  for (const auto& [weight, entry] : imatrix.entries) {
    const uint64_t n_mat = entry.counts.size();
    CHECK(n_mat > 0 && !entry.sums.empty() && entry.sums.size() % n_mat == 0);
    tensors.push_back({fmt::format("{}{}", weight, kSumsSuffix),
                       {entry.sums.size() / n_mat, n_mat},
                       TensorType::kF32});
    tensors.push_back({fmt::format("{}{}", weight, kCountsSuffix), {1, n_mat}, TensorType::kF32});
  }
  return tensors;
}

}  // namespace

Result<Imatrix> parse_imatrix(std::span<const std::byte> bytes, const std::string& name) {
  const bool is_gguf =
      bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
  return is_gguf ? parse_gguf(bytes, name) : parse_legacy(bytes, name);
}

Result<Imatrix> read_imatrix(const std::string& path) {
  TRY(file, MappedFile::open(path));
  return parse_imatrix(file.bytes(), path);
}

Result<Imatrix> read_imatrices(std::span<const std::string> paths) {
  CHECK(!paths.empty());
  TRY(sum, read_imatrix(paths.front()));
  for (const std::string& path : paths.subspan(1)) {
    TRY(next, read_imatrix(path));
    auto merged = merge_into(sum, next);
    if (!merged.ok()) {
      return error(merged.error().code, "{}: {}", path, merged.error().message);
    }
  }
  return sum;
}

Status write_imatrix(const std::string& path, const Imatrix& imatrix) {
  TRY_OK(check_names(imatrix));
  TRY(writer, GgufWriter::create(path, metadata_of(imatrix), tensors_of(imatrix)));
  for (const auto& [weight, entry] : imatrix.entries) {
    const std::vector<float> counts(entry.counts.begin(), entry.counts.end());
    TRY_OK(writer.write(std::as_bytes(std::span(entry.sums))));
    TRY_OK(writer.write(std::as_bytes(std::span(counts))));
  }
  return writer.commit();
}

}  // namespace hf2q
