#include "soft_flags.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>

#include "safetensors/safetensors.h"
#include "safetensors/widen.h"
#include "terminal.h"

namespace hf2q::app {
namespace {

struct SoftFlag {
  std::string file;
  std::string tensor;  // empty: the only one
  uint32_t position = 0;
  bool block = false;
};

Error bad_form(const std::string& flag) {
  return error(ErrorCode::kInvalidArgument,
               "--soft: FILE.safetensors[:TENSOR]@POS[:block] expected, found \"{}\"", flag);
}

Result<SoftFlag> parse(const std::string& flag) {
  const size_t at = flag.rfind('@');
  if (at == std::string::npos || at == 0) return bad_form(flag);
  SoftFlag result;
  std::string place = flag.substr(at + 1);
  if (place.ends_with(":block")) {
    result.block = true;
    place.resize(place.size() - std::string_view(":block").size());
  }
  const char* const end = place.data() + place.size();
  const auto [stop, failure] = std::from_chars(place.data(), end, result.position);
  if (failure != std::errc() || stop != end) return bad_form(flag);
  result.file = flag.substr(0, at);
  const size_t colon = result.file.rfind(':');
  if (colon != std::string::npos && !std::filesystem::exists(result.file)) {
    result.tensor = result.file.substr(colon + 1);
    result.file.resize(colon);
    if (result.tensor.empty() || result.file.empty()) return bad_form(flag);
  }
  return result;
}

Result<const SourceTensor*> find_tensor(const SafetensorsFile& file, const SoftFlag& flag) {
  if (!flag.tensor.empty()) {
    const SourceTensor* tensor = file.find(flag.tensor);
    if (tensor == nullptr)
      return error(ErrorCode::kNotFound, "{}: no tensor \"{}\"", flag.file, flag.tensor);
    return tensor;
  }
  if (file.tensors().size() != 1) {
    return error(ErrorCode::kInvalidArgument,
                 "--soft: {}: one tensor expected, found {}; write {}:TENSOR@{}", flag.file,
                 file.tensors().size(), flag.file, flag.position);
  }
  return &file.tensors().front();
}

Result<SoftRows> read_rows(const SoftFlag& flag, uint32_t hidden_dim) {
  TRY(file, SafetensorsFile::open(flag.file));
  TRY(tensor, find_tensor(file, flag));
  if (tensor->shape.size() != 2 || tensor->shape[1] != hidden_dim) {
    return error(ErrorCode::kCorrupt, "{}: {}: shape [rows, {}] expected, found [{}]", flag.file,
                 tensor->name, hidden_dim, fmt::join(tensor->shape, ", "));
  }
  if (tensor->shape[0] > UINT32_MAX - flag.position) {
    return error(ErrorCode::kInvalidArgument,
                 "--soft: {}: positions below {} expected, found {} rows from {} on", flag.file,
                 UINT32_MAX, tensor->shape[0], flag.position);
  }
  SoftRows rows;
  rows.position = flag.position;
  rows.n_rows = static_cast<uint32_t>(tensor->shape[0]);
  rows.block = flag.block;
  rows.values.resize(tensor->n_elements());
  TRY_OK(widen(*tensor, 0, rows.values.size(), rows.values.data()));
  return rows;
}

}  // namespace

void add_soft_flag(Command& command, std::vector<std::string>& values) {
  command
      .add_option("--soft", values,
                  "Rows in place of the embeddings from POS on; with :block they see each other as "
                  "an image; may be repeated")
      .value_name("FILE.safetensors[:TENSOR]@POS[:block]");
}

Result<std::vector<SoftRows>> read_soft_rows(std::span<const std::string> flags,
                                             const Config& config) {
  std::vector<SoftRows> all;
  for (const std::string& text : flags) {
    TRY(flag, parse(text));
    if (flag.block && !config.image_blocks)
      warn("--soft: rows of an image are causal in this model, :block has no effect");
    TRY(rows, read_rows(flag, config.hidden_dim));
    all.push_back(std::move(rows));
  }
  return all;
}

}  // namespace hf2q::app
