#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>

#include "base/checked.h"
#include "base/json.h"
#include "base/quote.h"
#include "safetensors/limits.h"
#include "safetensors/safetensors.h"

namespace hf2q {
namespace {

using simdjson::dom::element;

constexpr uint64_t kLengthBytes = 8;

struct DtypeInfo {
  std::string_view name;
  uint64_t bits;
};

constexpr DtypeInfo kDtypes[] = {
    // in the order of Dtype
    {"F32", 32},    {"F16", 16},    {"BF16", 16},   {"F64", 64},    {"I8", 8},
    {"U8", 8},      {"I16", 16},    {"U16", 16},    {"I32", 32},    {"U32", 32},
    {"I64", 64},    {"U64", 64},    {"BOOL", 8},    {"F8_E4M3", 8}, {"F8_E5M2", 8},
    {"F8_E8M0", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},      {"C64", 64},
};
static_assert(std::size(kDtypes) == static_cast<size_t>(Dtype::kC64) + 1);

// A tensor of the header that is being read; its errors begin with the file and the tensor.
struct Entry {
  const std::string& file;
  std::string_view name;

  template <class... Args>
  Error corrupt(fmt::format_string<Args...> text, Args&&... args) const {
    return error(ErrorCode::kCorrupt, "{}: tensor {}: {}", file, quote(name),
                 fmt::format(text, std::forward<Args>(args)...));
  }
};

// The JSON between the length and the data.
Result<std::string_view> header_text(std::span<const std::byte> bytes, const std::string& file) {
  if (bytes.size() < kLengthBytes) {
    return error(ErrorCode::kCorrupt, "{}: at least {} bytes expected, found {}", file,
                 kLengthBytes, bytes.size());
  }
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length < kSafetensorsMinHeaderBytes || length > kSafetensorsMaxHeaderBytes) {
    return error(ErrorCode::kCorrupt, "{}: header length from {} to {} expected, found {}", file,
                 kSafetensorsMinHeaderBytes, kSafetensorsMaxHeaderBytes, length);
  }
  if (length > bytes.size() - kLengthBytes) {
    return error(ErrorCode::kCorrupt, "{}: header of {} bytes expected, the file ends after {}",
                 file, length, bytes.size() - kLengthBytes);
  }
  return std::string_view(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
}

// Nothing may stand around the object but spaces behind it; what is inside is the parser's matter.
Status check_ends(std::string_view text, const std::string& file) {
  if (text.front() != '{') {
    return error(ErrorCode::kCorrupt, "{}: header must begin with '{{', found {}", file,
                 quote(text.substr(0, 1)));
  }
  const size_t last = text.find_last_not_of(' ');
  if (text[last] != '}') {
    return error(ErrorCode::kCorrupt, "{}: header must end with '}}' and spaces, found {}", file,
                 quote(text.substr(last, 1)));
  }
  return Ok{};
}

Result<Dtype> read_dtype(const Entry& entry, element value) {
  std::string_view name;
  if (value.get(name) != simdjson::SUCCESS) {
    return entry.corrupt("dtype: a string expected, found {}", describe(value));
  }
  const auto* const found = std::find_if(std::begin(kDtypes), std::end(kDtypes),
                                         [&](const DtypeInfo& info) { return info.name == name; });
  if (found == std::end(kDtypes)) return entry.corrupt("unknown dtype {}", quote(name));
  return static_cast<Dtype>(found - std::begin(kDtypes));
}

Result<std::vector<uint64_t>> read_integers(const Entry& entry, std::string_view field,
                                            element value) {
  simdjson::dom::array array;
  if (value.get(array) != simdjson::SUCCESS) {
    return entry.corrupt("{}: an array expected, found {}", field, describe(value));
  }
  std::vector<uint64_t> integers;
  integers.reserve(array.size());
  for (const element item : array) {
    uint64_t integer = 0;
    if (item.get(integer) != simdjson::SUCCESS) {
      return entry.corrupt("{}: a non-negative integer expected, found {}", field, describe(item));
    }
    integers.push_back(integer);
  }
  return integers;
}

struct Fields {
  element dtype;
  element shape;
  element data_offsets;
};

// The three members of a tensor's object, no other.
Result<Fields> read_fields(const Entry& entry, element value) {
  simdjson::dom::object object;
  if (value.get(object) != simdjson::SUCCESS) {
    return entry.corrupt("an object expected, found {}", describe(value));
  }
  constexpr std::string_view kNames[] = {"dtype", "shape", "data_offsets"};
  std::optional<element> values[std::size(kNames)];
  for (const auto& field : object) {
    const auto* const name = std::find(std::begin(kNames), std::end(kNames), field.key);
    if (name == std::end(kNames)) return entry.corrupt("unknown field {}", quote(field.key));
    values[name - std::begin(kNames)] = field.value;
  }
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (!values[i]) return entry.corrupt("no {}", kNames[i]);
  }
  return Fields{*values[0], *values[1], *values[2]};
}

Result<uint64_t> size_in_bytes(const Entry& entry, Dtype dtype, std::span<const uint64_t> shape) {
  const std::optional<uint64_t> n_elements = checked_product(shape);
  const auto bits = n_elements ? checked_mul(*n_elements, bits_of(dtype)) : std::nullopt;
  if (!bits) return entry.corrupt("shape: the number of bits does not fit 64 bits");
  if (*bits % 8 != 0) {
    return entry.corrupt("{} elements of {} do not fill whole bytes", *n_elements, name_of(dtype));
  }
  return *bits / 8;
}

// The part of `data` between the offsets, which must be as long as the shape says.
Result<std::span<const std::byte>> locate(const Entry& entry, std::span<const uint64_t> offsets,
                                          uint64_t expected_size, std::span<const std::byte> data) {
  if (offsets.size() != 2) {
    return entry.corrupt("data_offsets: 2 elements expected, found {}", offsets.size());
  }
  const uint64_t begin = offsets[0];
  const uint64_t end = offsets[1];
  if (end < begin) return entry.corrupt("data_offsets: end {} before begin {}", end, begin);
  if (end > data.size()) {
    return entry.corrupt("data_offsets: end {} behind the {} bytes of data in the file", end,
                         data.size());
  }
  if (end - begin != expected_size) {
    return entry.corrupt("{} bytes expected from dtype and shape, data_offsets span {}",
                         expected_size, end - begin);
  }
  return data.subspan(begin, expected_size);
}

Result<SourceTensor> read_tensor(const std::string& file, std::string_view name, element value,
                                 std::span<const std::byte> data) {
  TRY_OK(check_tensor_name(name, file, ErrorCode::kCorrupt));
  const Entry entry = {file, name};
  TRY(fields, read_fields(entry, value));
  TRY(dtype, read_dtype(entry, fields.dtype));
  TRY(shape, read_integers(entry, "shape", fields.shape));
  TRY(offsets, read_integers(entry, "data_offsets", fields.data_offsets));
  TRY(size, size_in_bytes(entry, dtype, shape));
  TRY(bytes, locate(entry, offsets, size, data));
  return SourceTensor{std::string(name), dtype, std::move(shape), bytes};
}

Result<std::vector<std::pair<std::string, std::string>>> read_metadata(const std::string& file,
                                                                       element value) {
  simdjson::dom::object object;
  if (value.get(object) != simdjson::SUCCESS) {
    return error(ErrorCode::kCorrupt, "{}: __metadata__: an object expected, found {}", file,
                 describe(value));
  }
  std::vector<std::pair<std::string, std::string>> metadata;
  for (const auto& field : object) {
    std::string_view text;
    if (field.value.get(text) != simdjson::SUCCESS) {
      return error(ErrorCode::kCorrupt, "{}: __metadata__: {}: a string expected, found {}", file,
                   quote(field.key), describe(field.value));
    }
    metadata.emplace_back(field.key, text);
  }
  return metadata;
}

// Brings `tensors` into data order and checks that they tile `data`.
Status sort_and_check_tiling(const std::string& file, std::vector<SourceTensor>& tensors,
                             std::span<const std::byte> data) {
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const SourceTensor& a, const SourceTensor& b) {
                     if (a.data.data() != b.data.data()) return a.data.data() < b.data.data();
                     return a.data.size() < b.data.size();
                   });
  uint64_t end = 0;
  for (const SourceTensor& tensor : tensors) {
    const auto begin = static_cast<uint64_t>(tensor.data.data() - data.data());
    if (begin != end) {
      return Entry{file, tensor.name}.corrupt(
          "data_offsets: begin {} expected, found {}: {} the tensor before it", end, begin,
          begin < end ? "overlaps" : "leaves a hole behind");
    }
    end += tensor.data.size();
  }
  if (end != data.size()) {
    return error(ErrorCode::kCorrupt, "{}: {} bytes of data expected, the file has {}", file, end,
                 data.size());
  }
  return Ok{};
}

}  // namespace

std::string_view name_of(Dtype dtype) {
  return kDtypes[static_cast<size_t>(dtype)].name;
}

uint64_t bits_of(Dtype dtype) {
  return kDtypes[static_cast<size_t>(dtype)].bits;
}

uint64_t SourceTensor::n_elements() const {
  uint64_t product = 1;
  for (const uint64_t dim : shape) product *= dim;
  return product;
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  TRY(mapped, MappedFile::open(path));
  TRY(file, parse(mapped.bytes(), path));
  file.file_.push_back(std::move(mapped));
  return file;
}

Result<SafetensorsFile> SafetensorsFile::parse(std::span<const std::byte> bytes,
                                               const std::string& name) {
  TRY(text, header_text(bytes, name));
  TRY_OK(check_ends(text, name));
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + text.size());
  simdjson::dom::parser parser;
  TRY(root, parse_json(parser, text, name));
  const simdjson::dom::object header = root.get_object().value_unsafe();  // begins with '{'

  SafetensorsFile file;
  file.tensors_.reserve(header.size());
  for (const auto& field : header) {
    if (field.key == kSafetensorsMetadataKey) {
      TRY(metadata, read_metadata(name, field.value));
      file.metadata_ = std::move(metadata);
    } else {
      TRY(tensor, read_tensor(name, field.key, field.value, data));
      file.tensors_.push_back(std::move(tensor));
    }
  }
  TRY_OK(sort_and_check_tiling(name, file.tensors_, data));
  file.index_.reserve(file.tensors_.size());
  for (size_t i = 0; i < file.tensors_.size(); ++i) file.index_.emplace(file.tensors_[i].name, i);
  return file;
}

const SourceTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace hf2q
