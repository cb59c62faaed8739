#include "quant/row_codec.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "quant/rows.h"

namespace hf2q {
namespace {

// Best first; the last is the scalar specification. The CPU is asked here, not in the files that
// are compiled for other CPUs.
std::vector<const QuantKernels*> find_kernels() {
  std::vector<const QuantKernels*> found;
#if defined(__x86_64__)
  // The instruction sets that CMakeLists.txt compiles *_avx512.cc and *_avx2.cc for.
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vnni")) {
    found.push_back(&kQuantAvx512);
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2")) {
    found.push_back(&kQuantAvx2);
  }
#endif
  found.push_back(&kQuantVector128);
  found.push_back(&kQuantScalar);
  return found;
}

template <TensorType kType>
bool encode(const float* row, size_t n, const float* importance, std::byte* dst) {
  static const RowEncoder encoder = row_functions(kType).encode;
  return encoder(*quant_kernels().front(), row, n, importance, dst);
}

template <TensorType kType>
void decode(const std::byte* src, size_t n, float* row) {
  static const RowDecoder decoder = row_functions(kType).decode;
  decoder(src, n, row);
}

template <TensorType kType>
constexpr RowCodec codec() {
  return {kType, encode<kType>, decode<kType>};
}

using enum TensorType;
constexpr RowCodec kCodecs[] = {
    codec<kF32>(),  codec<kF16>(),  codec<kBF16>(), codec<kQ4_0>(),   codec<kQ4_1>(),
    codec<kQ5_0>(), codec<kQ5_1>(), codec<kQ8_0>(), codec<kIQ4_NL>(), codec<kQ2_K>(),
    codec<kQ3_K>(), codec<kQ4_K>(), codec<kQ5_K>(), codec<kQ6_K>(),
};

}  // namespace

std::span<const QuantKernels* const> quant_kernels() {
  static const std::vector<const QuantKernels*> kernels = find_kernels();
  return kernels;
}

const RowFunctions& row_functions(TensorType type) {
  for (const auto family :
       {plain_rows(), rows_of_32(), q2_k_rows(), q3_k_rows(), q4_5_k_rows(), q6_k_rows()}) {
    const auto found = std::ranges::find(family, type, &RowFunctions::type);
    if (found != family.end()) return *found;
  }
  CHECK(false);
}

std::span<const RowCodec> row_codecs() {
  return kCodecs;
}

const RowCodec& row_codec(TensorType type) {
  const auto* found = std::ranges::find(kCodecs, type, &RowCodec::type);
  CHECK(found != std::end(kCodecs));
  return *found;
}

}  // namespace hf2q
