#include "engine/cache_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ops/turboquant.h"

namespace hf2q {
namespace {

using nlohmann::ordered_json;

// One of the four planes of a layer in its pages.
struct Plane {
  size_t offset;     // in a page
  size_t row_bytes;  // of a head at a position
};

// [KV heads, positions that `row` reads, row_bytes]
std::vector<std::byte> gather(const PageLayout& layout, const Plane& plane, const KvRow& row) {
  std::vector<std::byte> bytes;
  const uint32_t n_positions = layout.page_positions;
  for (size_t head = 0; head < layout.n_kv_heads; ++head) {
    for (uint32_t p = row.begin; p < row.end; ++p) {
      const std::byte* from = row.pages[p / n_positions] + plane.offset +
                              (head * n_positions + p % n_positions) * plane.row_bytes;
      bytes.insert(bytes.end(), from, from + plane.row_bytes);
    }
  }
  return bytes;
}

Dtype dtype_of_codes(KvFormat format) {
  if (format == KvFormat::kF32) return Dtype::kF32;
  if (format == KvFormat::kF16) return Dtype::kF16;
  if (format == KvFormat::kBF16) return Dtype::kBF16;
  return format == KvFormat::kQ8_0 ? Dtype::kI8 : Dtype::kU8;
}

std::string hexadecimal(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

ordered_json describe_format(const KvFormatInfo& info, uint32_t head_dim) {
  ordered_json json = {{"format", info.name},
                       {"bits_per_value", info.bits_per_value(head_dim)},
                       {"norm_block", std::min(info.norm_block, head_dim)}};
  if (!info.rotated) return json;
  const TurboQuant& tables = TurboQuant::of(info.format);
  ordered_json levels = ordered_json::array();
  for (size_t code = 0; code < size_t{1} << tables.code_bits(); ++code) {
    ordered_json values = ordered_json::array();
    for (uint32_t i = 0; i < tables.values_per_code(); ++i) {
      values.push_back(double{tables.values()[code * tables.values_per_code() + i]} *
                       double{tables.unit()});
    }
    levels.push_back(std::move(values));
  }
  json["code_bits"] = tables.code_bits();
  json["values_per_code"] = tables.values_per_code();
  json["levels"] = std::move(levels);
  json["signs"] = hexadecimal(turboquant_signs().first(head_dim / 8));
  return json;
}

// Adds its tensors, and returns its description.
ordered_json add_layer(const Engine& engine, const Sequence& sequence, uint32_t index,
                       uint32_t token, CacheRows& rows) {
  const KvPlace place = engine.kv().places[index];
  const KvGroup& group = engine.kv().groups[place.group];
  const PageLayout& layout = group.layout;
  const KvRow row = sequence.row(place.group, token);
  const uint64_t n = row.end - row.begin;
  const auto add = [&](const char* name, Dtype dtype, const Plane& plane) {
    if (plane.row_bytes == 0) return;
    const uint64_t columns = plane.row_bytes * 8 / bits_of(dtype);
    rows.tensors.push_back({fmt::format("cache.{}.{}", index, name),
                            dtype,
                            {layout.n_kv_heads, n, columns},
                            gather(layout, plane, row)});
  };
  const auto norm_type = [](KvFormat format) {
    return format == KvFormat::kQ8_0 ? Dtype::kF16 : Dtype::kF32;
  };
  add("k_codes", dtype_of_codes(layout.k_format),
      {layout.k_codes(place.layer), layout.k_row_bytes()});
  add("k_norms", norm_type(layout.k_format), {layout.k_norms(place.layer), layout.k_norm_bytes()});
  add("v_codes", dtype_of_codes(layout.v_format),
      {layout.v_codes(place.layer), layout.v_row_bytes()});
  add("v_norms", norm_type(layout.v_format), {layout.v_norms(place.layer), layout.v_norm_bytes()});

  const Config& config = engine.config();
  uint32_t owner = index;  // the last layer at this place that has K and V of its own
  for (uint32_t i = 0; i <= index; ++i) {
    const KvPlace& other = engine.kv().places[i];
    if (config.owns_kv(i) && other.group == place.group && other.layer == place.layer) owner = i;
  }
  return {{"layer", index},
          {"owner", owner},
          {"type", config.layers[index].sliding ? "sliding" : "full"},
          {"window", group.window},
          {"heads", config.n_heads},
          {"kv_heads", layout.n_kv_heads},
          {"head_dim", layout.head_dim},
          {"token", token},
          {"first", row.begin},
          {"length", n},
          {"k", describe_format(kv_format_info(layout.k_format), layout.head_dim)},
          {"v", describe_format(kv_format_info(layout.v_format), layout.head_dim)}};
}

}  // namespace

Result<CacheRows> cache_rows(const Engine& engine, const Sequence& sequence,
                             std::span<const uint32_t> layers, uint32_t token) {
  CacheRows rows;
  ordered_json description = {{"attention_scale", 1.0}, {"layers", ordered_json::array()}};
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] >= engine.config().n_layers) {
      return error(ErrorCode::kInvalidArgument, "trace: layers from 0 to {} expected, found {}",
                   engine.config().n_layers - 1, layers[i]);
    }
    if (std::ranges::find(layers.first(i), layers[i]) !=
        layers.begin() + static_cast<ptrdiff_t>(i)) {
      return error(ErrorCode::kInvalidArgument, "trace: layer {} once expected, found it twice",
                   layers[i]);
    }
    description["layers"].push_back(add_layer(engine, sequence, layers[i], token, rows));
  }
  rows.description = description.dump();
  return rows;
}

}  // namespace hf2q
