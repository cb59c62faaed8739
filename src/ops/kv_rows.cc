#include "ops/kv_rows.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/half.h"
#include "ops/attention.h"
#include "ops/turboquant.h"

namespace hf2q {
namespace {

constexpr float kMaxF16 = 65504.0F;

bool all_finite(const float* row, size_t n) {
  uint32_t bad = 0;
  for (size_t i = 0; i < n; ++i) {
    bad |= (std::bit_cast<uint32_t>(row[i]) & 0x7F800000U) == 0x7F800000U ? 1U : 0U;
  }
  return bad == 0;
}

bool encode_f32(const float* row, size_t n, std::byte* codes, std::byte* /*norms*/) {
  std::memcpy(codes, row, n * sizeof(float));
  return all_finite(row, n);
}

void decode_f32(const std::byte* codes, const std::byte* /*norms*/, size_t n, float* row) {
  std::memcpy(row, codes, n * sizeof(float));
}

bool encode_f16(const float* row, size_t n, std::byte* codes, std::byte* /*norms*/) {
  for (size_t i = 0; i < n; ++i) {
    const uint16_t bits = f32_to_f16(std::clamp(row[i], -kMaxF16, kMaxF16));
    std::memcpy(codes + 2 * i, &bits, 2);
  }
  return all_finite(row, n);
}

void decode_f16(const std::byte* codes, const std::byte* /*norms*/, size_t n, float* row) {
  for (size_t i = 0; i < n; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, codes + 2 * i, 2);
    row[i] = f16_to_f32(bits);
  }
}

// The largest finite values round up to infinity in BF16; they saturate as well.
bool encode_bf16(const float* row, size_t n, std::byte* codes, std::byte* /*norms*/) {
  constexpr float kMaxBf16 = 3.38953139e38F;
  for (size_t i = 0; i < n; ++i) {
    const uint16_t bits = f32_to_bf16(std::clamp(row[i], -kMaxBf16, kMaxBf16));
    std::memcpy(codes + 2 * i, &bits, 2);
  }
  return all_finite(row, n);
}

void decode_bf16(const std::byte* codes, const std::byte* /*norms*/, size_t n, float* row) {
  for (size_t i = 0; i < n; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, codes + 2 * i, 2);
    row[i] = bf16_to_f32(bits);
  }
}

constexpr size_t kQ8Block = 32;

// The scale is a number of F16; values beyond what it spans saturate.
bool encode_q8_0(const float* row, size_t n, std::byte* codes, std::byte* norms) {
  for (size_t begin = 0; begin < n; begin += kQ8Block) {
    float max = 0;
    for (size_t i = begin; i < begin + kQ8Block; ++i) max = std::max(max, std::abs(row[i]));
    const uint16_t bits = f32_to_f16(std::min(max / 127, kMaxF16));
    std::memcpy(norms + begin / kQ8Block * 2, &bits, 2);
    const float scale = f16_to_f32(bits);
    const float factor = scale > 0 ? 1 / scale : 0;
    for (size_t i = begin; i < begin + kQ8Block; ++i) {
      const float code = std::clamp(std::round(row[i] * factor), -127.0F, 127.0F);
      codes[i] = static_cast<std::byte>(static_cast<int>(code == code ? code : 0.0F));
    }
  }
  return all_finite(row, n);
}

void decode_q8_0(const std::byte* codes, const std::byte* norms, size_t n, float* row) {
  for (size_t i = 0; i < n; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, norms + i / kQ8Block * 2, 2);
    row[i] = static_cast<float>(static_cast<int8_t>(codes[i])) * f16_to_f32(bits);
  }
}

template <KvFormat kFormat>
bool encode_tq(const float* row, size_t n, std::byte* codes, std::byte* norms) {
  return TurboQuant::of(kFormat).encode(row, n, codes, norms);
}

template <KvFormat kFormat>
void decode_tq(const std::byte* codes, const std::byte* norms, size_t n, float* row) {
  TurboQuant::of(kFormat).decode_rotated(codes, norms, n, row);
}

template <KvFormat kFormat>
constexpr KvRowCodec tq_codec() {
  return {kFormat, encode_tq<kFormat>, decode_tq<kFormat>};
}

constexpr KvRowCodec kCodecs[] = {
    {KvFormat::kF32, encode_f32, decode_f32},
    {KvFormat::kF16, encode_f16, decode_f16},
    {KvFormat::kBF16, encode_bf16, decode_bf16},
    {KvFormat::kQ8_0, encode_q8_0, decode_q8_0},
    tq_codec<KvFormat::kTq8>(),
    tq_codec<KvFormat::kTq6>(),
    tq_codec<KvFormat::kTq5>(),
    tq_codec<KvFormat::kTq4>(),
    tq_codec<KvFormat::kTq3>(),
    tq_codec<KvFormat::kTq2>(),
    tq_codec<KvFormat::kTq3Half>(),
    tq_codec<KvFormat::kTq2Half>(),
};

void load(KvFormat format, const std::byte* codes, const std::byte* norms, size_t n, float* row) {
  kv_row_codec(format).decode_rotated(codes, norms, n, row);
  if (kv_format_info(format).rotated) turboquant_unrotate(row, n);
}

// Where one head's row of a position lies.
struct RowPlace {
  std::byte* codes;
  std::byte* norms;
};

RowPlace place_of(const PageLayout& layout, uint32_t layer, uint32_t head, const KvRow& row,
                  uint32_t position, bool keys) {
  const uint32_t t = layout.page_positions;
  std::byte* page = row.pages[position / t];
  const size_t index = size_t{head} * t + position % t;
  if (keys) {
    return {page + layout.k_codes(layer) + index * layout.k_row_bytes(),
            page + layout.k_norms(layer) + index * layout.k_norm_bytes()};
  }
  return {page + layout.v_codes(layer) + index * layout.v_row_bytes(),
          page + layout.v_norms(layer) + index * layout.v_norm_bytes()};
}

}  // namespace

const KvRowCodec& kv_row_codec(KvFormat format) {
  const auto* found = std::ranges::find(kCodecs, format, &KvRowCodec::format);
  CHECK(found != std::end(kCodecs));
  return *found;
}

std::optional<size_t> store_kv(Exec& exec, const PageLayout& layout, uint32_t layer,
                               std::span<const KvRow> rows, const float* k, const float* v) {
  const KvRowCodec& k_codec = kv_row_codec(layout.k_format);
  const KvRowCodec& v_codec = kv_row_codec(layout.v_format);
  std::atomic<size_t> bad = rows.size();
  exec.parallel_for(rows.size(), 4, [&](size_t begin, size_t end) {
    for (size_t r = begin; r < end; ++r) {
      bool finite = true;
      for (uint32_t head = 0; head < layout.n_kv_heads; ++head) {
        const size_t at = (r * layout.n_kv_heads + head) * layout.head_dim;
        const RowPlace to_k = place_of(layout, layer, head, rows[r], rows[r].position, true);
        const RowPlace to_v = place_of(layout, layer, head, rows[r], rows[r].position, false);
        finite &= k_codec.encode(k + at, layout.head_dim, to_k.codes, to_k.norms);
        finite &= v_codec.encode(v + at, layout.head_dim, to_v.codes, to_v.norms);
      }
      for (size_t first = bad; !finite && r < first;) {
        if (bad.compare_exchange_weak(first, r)) break;
      }
    }
  });
  if (bad == rows.size()) return std::nullopt;
  return bad.load();
}

void load_k(const PageLayout& layout, uint32_t layer, uint32_t head, const KvRow& row,
            uint32_t position, float* dst) {
  const RowPlace place = place_of(layout, layer, head, row, position, true);
  load(layout.k_format, place.codes, place.norms, layout.head_dim, dst);
}

void load_v(const PageLayout& layout, uint32_t layer, uint32_t head, const KvRow& row,
            uint32_t position, float* dst) {
  const RowPlace place = place_of(layout, layer, head, row, position, false);
  load(layout.v_format, place.codes, place.norms, layout.head_dim, dst);
}

}  // namespace hf2q
