// The reference: plain loops in the order that attention.h gives.

#include "ops/attention_softmax.h"
#include "ops/attention_table.h"
#include "ops/kv_rows.h"

namespace hf2q {
namespace {

// Calls use(j, row) for each row, decoded.
template <KvFormat kFormat, class Use>
void for_rows(const KvRun& run, size_t head_dim, const Use& use) {
  constexpr KvFormatInfo kInfo = kv_format_info(kFormat);
  const KvRowCodec& codec = kv_row_codec(kFormat);
  float row[kMaxHeadDim];
  for (size_t j = 0; j < run.n; ++j) {
    codec.decode_rotated(run.codes + j * kInfo.row_bytes(head_dim),
                         run.norms + j * kInfo.norm_bytes(head_dim), head_dim, row);
    use(j, row);
  }
}

template <KvFormat kFormat>
void score(const float* const* q, size_t n_queries, const KvRun& run, size_t head_dim,
           float* const* scores) {
  for_rows<kFormat>(run, head_dim, [&](size_t j, const float* row) {
    for (size_t i = 0; i < n_queries; ++i) {
      float lanes[kLanes] = {};
      for (size_t d = 0; d < head_dim; ++d) {
        lanes[d % kLanes] = __builtin_fmaf(q[i][d], row[d], lanes[d % kLanes]);
      }
      scores[i][j] = tree_sum(lanes);
    }
  });
}

template <KvFormat kFormat>
void accumulate(const float* const* p, size_t n_queries, const KvRun& run, size_t head_dim,
                float* const* acc) {
  for_rows<kFormat>(run, head_dim, [&](size_t j, const float* row) {
    for (size_t i = 0; i < n_queries; ++i) {
      for (size_t d = 0; d < head_dim; ++d) acc[i][d] = __builtin_fmaf(p[i][j], row[d], acc[i][d]);
    }
  });
}

template <KvFormat kFormat>
constexpr AttentionKernel kernel_for() {
  return {kFormat, Isa::kScalar, score<kFormat>, accumulate<kFormat>};
}

constexpr AttentionKernel kKernels[] = {
    kernel_for<KvFormat::kF32>(),     kernel_for<KvFormat::kF16>(),
    kernel_for<KvFormat::kBF16>(),    kernel_for<KvFormat::kQ8_0>(),
    kernel_for<KvFormat::kTq8>(),     kernel_for<KvFormat::kTq6>(),
    kernel_for<KvFormat::kTq5>(),     kernel_for<KvFormat::kTq4>(),
    kernel_for<KvFormat::kTq3>(),     kernel_for<KvFormat::kTq2>(),
    kernel_for<KvFormat::kTq3Half>(), kernel_for<KvFormat::kTq2Half>(),
};
constexpr SoftmaxKernels kSoftmax = {softmax, merge};

}  // namespace

std::span<const AttentionKernel> attention_kernels_scalar() {
  return kKernels;
}
const SoftmaxKernels& softmax_kernels_scalar() {
  return kSoftmax;
}

}  // namespace hf2q
