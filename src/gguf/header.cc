#include "gguf/header.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "base/checked.h"
#include "gguf/limits.h"

namespace hf2q {
namespace {

using Magic = std::array<unsigned char, 4>;
constexpr Magic kMagic = {'G', 'G', 'U', 'F'};
constexpr auto kLastType = static_cast<uint32_t>(ValueType::kF64);
// The shortest entries: a name of one byte; a value of one byte, one dimension.
constexpr uint64_t kMinKeyEntryBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorEntryBytes = 8 + 1 + 4 + 8 + 4 + 8;

class HeaderParser {
 public:
  HeaderParser(std::span<const std::byte> bytes, const std::string& path)
      : bytes_(bytes), path_(path) {}
  Result<GgufHeader> parse();

 private:
  Status read_preamble();
  Status read_version();
  Status read_key();
  Result<Value> read_value();
  Result<std::span<const std::byte>> take_elements(ValueType type, uint64_t count);
  Status read_alignment();
  Status read_tensor();
  Status read_dims(GgufTensor& tensor);
  Status read_type(GgufTensor& tensor);
  Status read_offset(const GgufTensor& tensor);
  Status place_tensors();

  uint64_t remaining() const { return bytes_.size() - position_; }
  Result<std::span<const std::byte>> take(uint64_t size, std::string_view what);
  template <class T>
  Result<T> read(std::string_view what);
  Result<std::string_view> read_name(uint64_t max_bytes);

  // An error about the entry that is being read.
  template <class... Args>
  Error corrupt(fmt::format_string<Args...> text, Args&&... args) const {
    return error(ErrorCode::kCorrupt, "{}: {}: {}", path_, place(),
                 fmt::format(text, std::forward<Args>(args)...));
  }
  std::string place() const;

  std::span<const std::byte> bytes_;
  const std::string& path_;
  size_t position_ = 0;

  const char* list_ = nullptr;  // "key" or "tensor" while in that list
  uint64_t entry_ = 0;          // number in the list
  std::string_view name_;       // empty until it has been read

  uint64_t n_tensors_ = 0;
  uint64_t n_keys_ = 0;
  uint32_t alignment_ = kGgufAlignment;
  std::vector<uint64_t> sizes_;  // bytes of each tensor's data
  uint64_t data_bytes_ = 0;      // of the tensors so far, padding included: the next one's offset
  GgufHeader header_;
};

std::string HeaderParser::place() const {
  if (list_ == nullptr) return "header";
  return name_.empty() ? fmt::format("{} number {}", list_, entry_)
                       : fmt::format("{} '{}'", list_, name_);
}

Result<std::span<const std::byte>> HeaderParser::take(uint64_t size, std::string_view what) {
  if (size > remaining()) {
    return corrupt("{} of {} bytes expected, the file ends after {}", what, size, remaining());
  }
  const std::span<const std::byte> taken = bytes_.subspan(position_, size);
  position_ += size;
  return taken;
}

template <class T>
Result<T> HeaderParser::read(std::string_view what) {
  TRY(bytes, take(sizeof(T), what));
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

Result<std::string_view> HeaderParser::read_name(uint64_t max_bytes) {
  TRY(size, read<uint64_t>("length of the name"));
  if (size < 1 || size > max_bytes) {
    return corrupt("name of 1 to {} bytes expected, found {}", max_bytes, size);
  }
  TRY(bytes, take(size, "name"));
  const std::string_view name(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t odd = find_unprintable(name);
  if (odd < name.size()) {
    return corrupt("name of printable ASCII expected, byte {} is 0x{:02x}", odd,
                   static_cast<unsigned char>(name[odd]));
  }
  return name;
}

Status HeaderParser::read_version() {
  TRY(version, read<uint32_t>("version"));
  if (version != 0 && (version & 0xFFFF) == 0) {
    return error(ErrorCode::kUnsupported,
                 "{}: wrong endianness: little-endian expected, the version reads 0x{:08x}", path_,
                 version);
  }
  if (version != 2 && version != 3) {
    return error(ErrorCode::kUnsupported, "{}: GGUF version 2 or 3 expected, found {}", path_,
                 version);
  }
  header_.version = version;
  return Ok{};
}

Status HeaderParser::read_preamble() {
  TRY(magic, read<Magic>("magic \"GGUF\""));
  if (magic != kMagic) {
    return corrupt("magic \"GGUF\" (47 47 55 46) expected, found {:02x}", fmt::join(magic, " "));
  }
  TRY_OK(read_version());
  TRY(n_tensors, read<uint64_t>("number of tensors"));
  TRY(n_keys, read<uint64_t>("number of keys"));
  if (n_tensors > kGgufMaxEntries || n_keys > kGgufMaxEntries) {
    return corrupt("at most {} tensors and keys expected, found {} and {}", kGgufMaxEntries,
                   n_tensors, n_keys);
  }
  const uint64_t least = n_tensors * kMinTensorEntryBytes + n_keys * kMinKeyEntryBytes;
  if (least > remaining()) {
    return corrupt("{} tensors and {} keys take at least {} bytes, the file has {} more", n_tensors,
                   n_keys, least, remaining());
  }
  n_tensors_ = n_tensors;
  n_keys_ = n_keys;
  return Ok{};
}

Result<std::span<const std::byte>> HeaderParser::take_elements(ValueType type, uint64_t count) {
  if (type != ValueType::kString) return take(count * scalar_bytes(type), "value");
  const std::optional<size_t> size = bytes_of_strings(bytes_.subspan(position_), count);
  if (!size) {
    return corrupt("{} string(s) expected, they run past the end of the file, {} bytes on", count,
                   remaining());
  }
  return take(*size, "value");
}

Result<Value> HeaderParser::read_value() {
  Value value;
  TRY(type, read<uint32_t>("type"));
  if (type > kLastType) return corrupt("type 0 to {} expected, found {}", kLastType, type);
  value.type = ValueType{type};
  if (value.type != ValueType::kArray) {
    TRY(bytes, take_elements(value.type, 1));
    value.bytes = bytes;
    return value;
  }
  TRY(element, read<uint32_t>("element type"));
  value.element = ValueType{element};
  if (element > kLastType || value.element == ValueType::kArray) {
    return corrupt("element type 0 to {}, not 9 (array), expected, found {}", kLastType, element);
  }
  TRY(count, read<uint64_t>("number of elements"));
  if (count > kGgufMaxElements) {
    return corrupt("at most {} elements expected, found {}", kGgufMaxElements, count);
  }
  value.count = count;
  TRY(bytes, take_elements(value.element, count));
  value.bytes = bytes;
  return value;
}

Status HeaderParser::read_key() {
  name_ = {};
  TRY(name, read_name(kGgufMaxKeyBytes));
  name_ = name;
  TRY(value, read_value());
  header_.metadata.emplace_back(name, value);
  header_.keys.add(name);
  return Ok{};
}

Status HeaderParser::read_alignment() {
  name_ = "general.alignment";
  const Value* value = header_.find(name_);
  if (value == nullptr) return Ok{};
  const std::optional<uint32_t> alignment = value->as_u32();
  if (!alignment) return corrupt("u32 expected, found {}", describe(*value));
  if (!std::has_single_bit(*alignment) || *alignment > kGgufMaxAlignment) {
    return corrupt("a power of two up to {} expected, found {}", kGgufMaxAlignment, *alignment);
  }
  alignment_ = *alignment;
  return Ok{};
}

Status HeaderParser::read_dims(GgufTensor& tensor) {
  TRY(n_dims, read<uint32_t>("number of dimensions"));
  if (n_dims < 1 || n_dims > kGgufMaxDims) {
    return corrupt("1 to {} dimensions expected, found {}", kGgufMaxDims, n_dims);
  }
  tensor.n_dims = n_dims;
  for (uint32_t i = 0; i < n_dims; ++i) {
    TRY(dim, read<uint64_t>("dimension"));
    if (dim < 1) return corrupt("dimension {} of 1 or more expected, found 0", i);
    tensor.dims[i] = dim;
  }
  const std::optional<uint64_t> n_elements = checked_product(tensor.dims);
  if (!n_elements || std::bit_width(*n_elements) > 63) {
    return corrupt("fewer than 2^63 elements expected, found shape [{}]",
                   fmt::join(std::span(tensor.dims).first(n_dims), ", "));
  }
  return Ok{};
}

Status HeaderParser::read_type(GgufTensor& tensor) {
  TRY(id, read<uint32_t>("type"));
  tensor.type = find_tensor_type(id);
  if (tensor.type == nullptr) return corrupt("the id of a type for weights expected, found {}", id);
  const uint64_t block = tensor.type->block_elements;
  if (tensor.dims[0] % block != 0) {
    return corrupt("rows of a multiple of {} elements expected for {}, found {}", block,
                   tensor.type->name, tensor.dims[0]);
  }
  const std::optional<uint64_t> size =
      checked_mul(tensor.n_elements() / block, tensor.type->block_bytes);
  if (!size) return corrupt("fewer than 2^64 bytes expected");
  sizes_.push_back(*size);
  return Ok{};
}

Status HeaderParser::read_offset(const GgufTensor& tensor) {
  TRY(offset, read<uint64_t>("offset"));
  if (offset != data_bytes_) return corrupt("offset {} expected, found {}", data_bytes_, offset);
  const std::optional<uint64_t> padded = checked_round_up(sizes_.back(), alignment_);
  const std::optional<uint64_t> end = padded ? checked_add(offset, *padded) : std::nullopt;
  if (!end) {
    return corrupt("data at {} ends past 2^64: {} elements of {}", offset, tensor.n_elements(),
                   tensor.type->name);
  }
  data_bytes_ = *end;
  return Ok{};
}

Status HeaderParser::read_tensor() {
  GgufTensor tensor;
  name_ = {};
  TRY(name, read_name(kGgufMaxTensorNameBytes));
  name_ = tensor.name = name;
  TRY_OK(read_dims(tensor));
  TRY_OK(read_type(tensor));
  TRY_OK(read_offset(tensor));
  header_.tensors.push_back(tensor);
  return Ok{};
}

// The padding behind the last tensor may be missing, and anything may follow it.
Status HeaderParser::place_tensors() {
  const uint64_t data_begin = *checked_round_up(position_, alignment_);  // position_ <= file size
  uint64_t begin = data_begin;
  for (size_t i = 0; i < header_.tensors.size(); ++i) {
    entry_ = i;
    name_ = header_.tensors[i].name;
    if (begin > bytes_.size() || sizes_[i] > bytes_.size() - begin) {
      return corrupt("{} bytes of data expected at {}, the file has {} bytes", sizes_[i], begin,
                     bytes_.size());
    }
    header_.tensors[i].data = bytes_.subspan(begin, sizes_[i]);
    begin += *checked_round_up(sizes_[i], alignment_);  // below file size + alignment
  }
  return Ok{};
}

Result<GgufHeader> HeaderParser::parse() {
  TRY_OK(read_preamble());
  list_ = "key";
  header_.metadata.reserve(n_keys_);
  header_.keys.reserve(n_keys_);
  for (entry_ = 0; entry_ < n_keys_; ++entry_) TRY_OK(read_key());
  if (const auto twins = header_.keys.sort()) {
    name_ = header_.metadata[twins->first].first;
    return corrupt("unique keys expected, entries {} and {} are equal", twins->first,
                   twins->second);
  }
  TRY_OK(read_alignment());
  list_ = "tensor";
  header_.tensors.reserve(n_tensors_);
  sizes_.reserve(n_tensors_);
  for (entry_ = 0; entry_ < n_tensors_; ++entry_) TRY_OK(read_tensor());
  TRY_OK(place_tensors());
  return std::move(header_);
}

}  // namespace

const Value* GgufHeader::find(std::string_view key) const {
  const std::optional<size_t> position = keys.find(key);
  return position ? &metadata[*position].second : nullptr;
}

Result<GgufHeader> parse_header(std::span<const std::byte> bytes, const std::string& path) {
  return HeaderParser(bytes, path).parse();
}

}  // namespace hf2q
