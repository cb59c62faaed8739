// Rows of one model shape through every codec and every set of kernels; bytes are those of F32.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <random>
#include <string>
#include <vector>

#include "quant/rows.h"

namespace hf2q {
namespace {

constexpr size_t kColumns = 2816;

std::vector<float> make_row(float scale) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> row(kColumns);
  for (float& v : row) v = normal(rng);
  return row;
}

void count_bytes(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kColumns * sizeof(float)));
}

void encode(benchmark::State& state, const QuantKernels& kernels, TensorType type, bool weighted) {
  const std::vector<float> row = make_row(0.02F);
  std::vector<float> importance = make_row(1);
  for (float& v : importance) v *= v;
  std::vector<std::byte> out(row_bytes(type, kColumns));
  const RowEncoder encoder = row_functions(type).encode;
  for (auto _ : state) {
    encoder(kernels, row.data(), kColumns, weighted ? importance.data() : nullptr, out.data());
    benchmark::ClobberMemory();
  }
  count_bytes(state);
}

void decode(benchmark::State& state, TensorType type) {
  std::vector<float> row = make_row(0.02F);
  std::vector<std::byte> bytes(row_bytes(type, kColumns));
  const RowFunctions& codec = row_functions(type);
  codec.encode(*quant_kernels().front(), row.data(), kColumns, nullptr, bytes.data());
  for (auto _ : state) {
    codec.decode(bytes.data(), kColumns, row.data());
    benchmark::ClobberMemory();
  }
  count_bytes(state);
}

const int kRegistered = [] {
  for (const TensorTypeInfo& info : tensor_types()) {
    if (!info.supported) continue;
    const auto type = static_cast<TensorType>(info.id);
    for (const QuantKernels* kernels : quant_kernels()) {
      for (const bool weighted : {false, true}) {
        const std::string name = fmt::format("encode_row/{}/{}/{}{}", kernels->name, info.name,
                                             kColumns, weighted ? "/importance" : "");
        benchmark::RegisterBenchmark(name.c_str(), encode, *kernels, type, weighted);
      }
    }
    const std::string name = fmt::format("decode_row/{}/{}", info.name, kColumns);
    benchmark::RegisterBenchmark(name.c_str(), decode, type);
  }
  return 0;
}();

}  // namespace
}  // namespace hf2q
