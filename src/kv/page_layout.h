#pragma once
// How cache rows lie in memory: shared by the pool (src/kv) and the kernels (src/ops), which do not
// know each other.
//
// A *group* is the set of layers that own K and V and agree in window, KV heads and head size. Its
// pages hold T positions of all its layers:
//
//   page:  [layer][K codes | K norms | V codes | V norms]
//   plane: [head][T][row]            each plane begins at a multiple of 128 bytes
//
// A row is one head's head_dim values at one position, in a format (KvFormat). Formats with norms
// keep them in a plane of their own, [head][T][norms], so that rows stay aligned.
//
//   f32 f16 bf16   the values
//   q8_0           round(x / s), s = max |x| / 127 of each 32 values, kept as F16
//   tq*            TurboQuant (ops/turboquant.h): the rotated row as codes of levels, and the root
//                  mean square of each min(head_dim, 256) values as F32

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace hf2q {

// Head sizes that attention reads, whatever the format: multiples of kHeadDimStep up to
// kMaxHeadDim.
inline constexpr uint32_t kMaxHeadDim = 512;
inline constexpr uint32_t kHeadDimStep = 16;

enum class KvFormat : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kTq8,
  kTq6,
  kTq5,
  kTq4,
  kTq3,
  kTq2,
  kTq3Half,
  kTq2Half,
};

struct KvFormatInfo {
  KvFormat format;
  std::string_view name;  // stable: a flag value, and written into saved caches
  uint32_t pair_bits;     // of two values in a row
  uint32_t norm_block;    // values that share a norm, at most the whole row; 0: no norms
  uint32_t norm_size;     // bytes of a norm
  bool rotated;

  constexpr size_t row_bytes(size_t head_dim) const { return (head_dim * pair_bits + 15) / 16; }
  constexpr size_t norm_bytes(size_t head_dim) const {
    return norm_block == 0 ? 0 : (head_dim + norm_block - 1) / norm_block * norm_size;
  }
  // Stored bits per value, norms included.
  constexpr double bits_per_value(size_t head_dim) const {
    return 8.0 * static_cast<double>(row_bytes(head_dim) + norm_bytes(head_dim)) /
           static_cast<double>(head_dim);
  }
  // Whether rows of this length can be kept, and what is expected of it otherwise.
  constexpr bool holds(size_t head_dim) const {
    if (rotated) return head_dim >= 16 && head_dim <= kMaxHeadDim && std::has_single_bit(head_dim);
    return head_dim > 0 && (norm_block == 0 || head_dim % norm_block == 0);
  }
  constexpr std::string_view held_sizes() const {
    if (rotated) return "a power of two from 16 to 512";
    return norm_block == 0 ? "at least 1" : "a multiple of 32";
  }
};

inline constexpr KvFormatInfo kKvFormats[] = {
    {KvFormat::kF32, "f32", 64, 0, 0, false},       {KvFormat::kF16, "f16", 32, 0, 0, false},
    {KvFormat::kBF16, "bf16", 32, 0, 0, false},     {KvFormat::kQ8_0, "q8_0", 16, 32, 2, false},
    {KvFormat::kTq8, "tq8", 16, 256, 4, true},      {KvFormat::kTq6, "tq6", 12, 256, 4, true},
    {KvFormat::kTq5, "tq5", 10, 256, 4, true},      {KvFormat::kTq4, "tq4", 8, 256, 4, true},
    {KvFormat::kTq3, "tq3", 6, 256, 4, true},       {KvFormat::kTq2, "tq2", 4, 256, 4, true},
    {KvFormat::kTq3Half, "tq3.5", 7, 256, 4, true}, {KvFormat::kTq2Half, "tq2.5", 5, 256, 4, true},
};

constexpr const KvFormatInfo& kv_format_info(KvFormat format) {
  return kKvFormats[static_cast<size_t>(format)];
}

inline std::optional<KvFormat> parse_kv_format(std::string_view name) {
  for (const KvFormatInfo& info : kKvFormats) {
    if (info.name == name) return info.format;
  }
  return std::nullopt;
}

// The shape of a group's pages. Offsets are in bytes from the start of a page.
struct PageLayout {
  uint32_t n_layers = 0;  // of the group
  uint32_t n_kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t page_positions = 32;  // T, a power of two
  KvFormat k_format = KvFormat::kF16;
  KvFormat v_format = KvFormat::kF16;

  static constexpr size_t kPlaneAlignment = 128;

  constexpr size_t plane_bytes(size_t bytes_per_row) const {
    const size_t bytes = bytes_per_row * page_positions * n_kv_heads;
    return (bytes + kPlaneAlignment - 1) / kPlaneAlignment * kPlaneAlignment;
  }
  constexpr size_t k_row_bytes() const { return kv_format_info(k_format).row_bytes(head_dim); }
  constexpr size_t v_row_bytes() const { return kv_format_info(v_format).row_bytes(head_dim); }
  constexpr size_t k_norm_bytes() const { return kv_format_info(k_format).norm_bytes(head_dim); }
  constexpr size_t v_norm_bytes() const { return kv_format_info(v_format).norm_bytes(head_dim); }

  constexpr size_t layer_bytes() const {
    return plane_bytes(k_row_bytes()) + plane_bytes(k_norm_bytes()) + plane_bytes(v_row_bytes()) +
           plane_bytes(v_norm_bytes());
  }
  constexpr size_t page_bytes() const { return n_layers * layer_bytes(); }

  constexpr size_t k_codes(size_t layer) const { return layer * layer_bytes(); }
  constexpr size_t k_norms(size_t layer) const {
    return k_codes(layer) + plane_bytes(k_row_bytes());
  }
  constexpr size_t v_codes(size_t layer) const {
    return k_norms(layer) + plane_bytes(k_norm_bytes());
  }
  constexpr size_t v_norms(size_t layer) const {
    return v_codes(layer) + plane_bytes(v_row_bytes());
  }
};

// One row of a batch as attention and the row encoders see it: where the pages of its sequence are
// and which positions it may read.
struct KvRow {
  // Page i holds positions [i T, (i + 1) T); pages outside of the window may be nullptr.
  std::byte* const* pages = nullptr;
  uint32_t position = 0;  // where its own K and V are stored
  uint32_t begin = 0;     // it reads positions [begin, end)
  uint32_t end = 0;
};

}  // namespace hf2q
