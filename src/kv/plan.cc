#include "kv/plan.h"

#include <algorithm>
#include <array>

#include "base/checked.h"

namespace hf2q {
namespace {

constexpr uint64_t kMaxPageBytes = uint64_t{1} << 40;

Error invalid(size_t layer, std::string_view field, std::string_view expected, uint64_t found) {
  return error(ErrorCode::kInvalidArgument, "cache of layer {}: {}: {} expected, found {}", layer,
               field, expected, found);
}

Status check_layer(size_t index, const KvLayerSpec& layer, KvFormat k, KvFormat v) {
  if (layer.n_kv_heads == 0) return invalid(index, "KV heads", "at least 1", layer.n_kv_heads);
  for (KvFormat format : {k, v}) {
    const KvFormatInfo& info = kv_format_info(format);
    if (!info.holds(layer.head_dim)) {
      return invalid(index, fmt::format("head size for {}", info.name), info.held_sizes(),
                     layer.head_dim);
    }
  }
  return Ok{};
}

// Bounds every product that PageLayout forms: 8 bytes for a value of K and one of V at most.
Status check_page_bytes(size_t index, const PageLayout& layout) {
  const std::optional<uint64_t> bytes = checked_product(std::array<uint64_t, 5>{
      layout.n_layers, layout.n_kv_heads, layout.page_positions, layout.head_dim, 8});
  if (bytes && *bytes <= kMaxPageBytes) return Ok{};
  return error(
      ErrorCode::kInvalidArgument,
      "cache of layer {}: pages of at most {} bytes expected, found {} layers x {} heads x "
      "{} positions x {} values",
      index, kMaxPageBytes, layout.n_layers, layout.n_kv_heads, layout.page_positions,
      layout.head_dim);
}

bool same_kind(const KvLayerSpec& a, const KvLayerSpec& b) {
  return a.window == b.window && a.n_kv_heads == b.n_kv_heads && a.head_dim == b.head_dim;
}

bool belongs(const KvLayerSpec& layer, const KvGroup& group) {
  return same_kind(layer, {group.window, group.layout.n_kv_heads, group.layout.head_dim});
}

KvGroup empty_group(const KvLayerSpec& layer, KvFormat k, KvFormat v, uint32_t page_positions) {
  return {layer.window,
          {.n_layers = 0,
           .n_kv_heads = layer.n_kv_heads,
           .head_dim = layer.head_dim,
           .page_positions = page_positions,
           .k_format = k,
           .v_format = v}};
}

}  // namespace

Result<KvPlan> plan_kv(std::span<const KvLayerSpec> layers, const KvFormats& formats,
                       uint32_t page_positions) {
  if (!std::has_single_bit(page_positions)) {
    return error(ErrorCode::kInvalidArgument,
                 "cache: page positions: a power of two expected, found {}", page_positions);
  }
  KvPlan plan;
  for (size_t i = 0; i < layers.size(); ++i) {
    const KvLayerSpec& layer = layers[i];
    const KvFormat k = layer.window == 0 ? formats.k : formats.k_window;
    const KvFormat v = layer.window == 0 ? formats.v : formats.v_window;
    TRY_OK(check_layer(i, layer, k, v));
    auto group = std::find_if(plan.groups.begin(), plan.groups.end(),
                              [&](const KvGroup& g) { return belongs(layer, g); });
    const bool is_new = group == plan.groups.end();
    if (is_new && !layer.owns) {
      return error(
          ErrorCode::kInvalidArgument,
          "cache of layer {}: it shares rows, but no layer before it owns rows of {} heads "
          "x {} values with window {}",
          i, layer.n_kv_heads, layer.head_dim, layer.window);
    }
    if (is_new) {
      group = plan.groups.insert(group, empty_group(layer, k, v, page_positions));
    }
    if (layer.owns) ++group->layout.n_layers;
    TRY_OK(check_page_bytes(i, group->layout));
    plan.places.push_back(
        {static_cast<uint32_t>(group - plan.groups.begin()), group->layout.n_layers - 1});
  }
  return plan;
}

uint64_t pages_in_pass(const KvGroup& group, uint64_t length, uint64_t n_new,
                       uint64_t max_rollback) {
  const uint64_t positions = group.layout.page_positions;
  const uint64_t first = first_needed(group.window, length, max_rollback) / positions;
  return (length + n_new + positions - 1) / positions - first;
}

uint64_t pages_at_rest(const KvGroup& group, uint64_t length, uint64_t max_rollback) {
  return pages_in_pass(group, length, 0, max_rollback);
}

uint64_t bytes_at_rest(std::span<const KvGroup> groups, uint64_t length, uint64_t max_rollback) {
  uint64_t bytes = 0;
  for (const KvGroup& group : groups) {
    bytes += pages_at_rest(group, length, max_rollback) * group.layout.page_bytes();
  }
  return bytes;
}

}  // namespace hf2q
