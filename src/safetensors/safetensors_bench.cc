#include <benchmark/benchmark.h>

#include <cstring>
#include <string>

#include "base/check.h"
#include "safetensors/safetensors.h"
#include "safetensors/widen.h"

namespace hf2q {
namespace {

// A file with `count` tensors of two bytes.
std::string many_tensors(int64_t count) {
  std::string header = "{";
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0) header += ',';
    header += fmt::format(R"("layers.{}.weight":{{"dtype":"BF16","shape":[1],)", i);
    header += fmt::format(R"("data_offsets":[{},{}]}})", 2 * i, 2 * i + 2);
  }
  header += '}';
  const uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(static_cast<size_t>(2 * count), '\0');
}

void parse_tensors(benchmark::State& state) {
  const std::string file = many_tensors(state.range(0));
  for (auto _ : state) {
    auto parsed = SafetensorsFile::parse(std::as_bytes(std::span(file)), "file");
    CHECK(parsed.ok());
    benchmark::DoNotOptimize(parsed.value().tensors().data());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(parse_tensors)->Name("safetensors/parse")->RangeMultiplier(10)->Range(1000, 1'000'000);

void widen_rows(benchmark::State& state, Dtype dtype) {
  constexpr uint64_t kRows = 512;
  constexpr uint64_t kCols = 2816;
  const std::vector<std::byte> bytes(kRows * kCols * bits_of(dtype) / 8 + 1, std::byte{0x3C});
  const SourceTensor tensor = {"w", dtype, {kRows, kCols}, std::span(bytes).subspan(1)};
  std::vector<float> row(kCols);
  for (auto _ : state) {
    for (uint64_t r = 0; r < kRows; ++r) {
      CHECK(widen(tensor, r * kCols, kCols, row.data()).ok());
      benchmark::DoNotOptimize(row.data());
    }
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(tensor.data.size()));
}
BENCHMARK_CAPTURE(widen_rows, bf16, Dtype::kBF16)->Name("safetensors/widen/bf16/512x2816");
BENCHMARK_CAPTURE(widen_rows, f16, Dtype::kF16)->Name("safetensors/widen/f16/512x2816");
BENCHMARK_CAPTURE(widen_rows, f32, Dtype::kF32)->Name("safetensors/widen/f32/512x2816");

}  // namespace
}  // namespace hf2q
