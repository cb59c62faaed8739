#include <iterator>

#include "base/check.h"
#include "base/checked.h"
#include "base/json.h"
#include "base/output_file.h"
#include "safetensors/limits.h"
#include "safetensors/safetensors.h"

namespace hf2q {
namespace {

constexpr uint64_t kHeaderAlignment = 8;

void append_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", c);
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_metadata(std::string& out,
                     std::span<const std::pair<std::string, std::string>> metadata) {
  out += "\"__metadata__\":{";
  for (const auto& [key, value] : metadata) {
    if (&key != &metadata.front().first) out += ',';
    append_string(out, key);
    out += ':';
    append_string(out, value);
  }
  out += '}';
}

void append_tensor(std::string& out, const SourceTensor& tensor, uint64_t begin) {
  append_string(out, tensor.name);
  fmt::format_to(
      std::back_inserter(out), ":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
      name_of(tensor.dtype), fmt::join(tensor.shape, ","), begin, begin + tensor.data.size());
}

std::string make_header(std::span<const SourceTensor> tensors,
                        std::span<const std::pair<std::string, std::string>> metadata) {
  std::string header = "{";
  if (!metadata.empty()) append_metadata(header, metadata);
  uint64_t offset = 0;
  for (const SourceTensor& tensor : tensors) {
    if (header.size() > 1) header += ',';
    append_tensor(header, tensor, offset);
    offset += tensor.data.size();
  }
  header += '}';
  header.resize(*checked_round_up(header.size(), kHeaderAlignment), ' ');
  return header;
}

// Names that the reader would refuse, or twice the same.
Status check_header(const std::string& header, std::span<const SourceTensor> tensors,
                    const std::string& path) {
  constexpr ErrorCode kCode = ErrorCode::kInvalidArgument;
  if (header.size() > kSafetensorsMaxHeaderBytes) {
    return error(kCode, "{}: header of at most {} bytes expected, found {}", path,
                 kSafetensorsMaxHeaderBytes, header.size());
  }
  for (const SourceTensor& tensor : tensors) {
    TRY_OK(check_tensor_name(tensor.name, path, kCode));
    if (tensor.name == kSafetensorsMetadataKey) {
      return error(kCode, "{}: no tensor may be named {}", path, kSafetensorsMetadataKey);
    }
    CHECK(tensor.data.size() * 8 == tensor.n_elements() * bits_of(tensor.dtype));
  }
  simdjson::dom::parser parser;
  auto parsed = parse_json(parser, header, path);  // valid UTF-8, no name twice
  if (!parsed.ok()) return error(kCode, "{}", parsed.error().message);
  return Ok{};
}

}  // namespace

Status write_safetensors(const std::string& path, std::span<const SourceTensor> tensors,
                         std::span<const std::pair<std::string, std::string>> metadata) {
  const std::string header = make_header(tensors, metadata);
  TRY_OK(check_header(header, tensors, path));
  TRY(file, OutputFile::create(path));
  const uint64_t length = header.size();
  TRY_OK(file.write(std::as_bytes(std::span(&length, 1))));
  TRY_OK(file.write(std::as_bytes(std::span(header))));
  for (const SourceTensor& tensor : tensors) TRY_OK(file.write(tensor.data));
  return file.commit();
}

}  // namespace hf2q
