// matmul/KERNEL/ROWSxCOLS/m: every kernel this machine runs, on one thread, with the shapes of
// Gemma models. m = 1 reports bytes/s of weights, taken from memory beyond the caches; else FLOP/s.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <memory>
#include <random>
#include <vector>

#include "ops/matmul.h"

namespace hf2q {
namespace {

struct Shape {
  size_t rows;
  size_t cols;
};
constexpr Shape kShapes[] = {{1024, 1024}, {3072, 1024}, {1024, 3072}, {1536, 5120}, {32768, 1024}};
constexpr size_t kRows[] = {1, 8, 64, 512};
constexpr size_t kBeyondCaches = 256 << 20;

struct AlignedDelete {
  void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
};
using Bytes = std::unique_ptr<std::byte[], AlignedDelete>;

// Bytes that are finite as numbers of any type: exponents of F16, BF16 and F32 stay small.
Bytes finite_bytes(size_t n) {
  Bytes bytes(new (std::align_val_t{64}) std::byte[n]);
  std::minstd_rand rng(1);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(rng() >> 8 & 0x3B);
  return bytes;
}

void run(benchmark::State& state, const MatmulKernel& kernel, Shape shape, size_t m) {
  Exec exec(1, kernel.isa);
  const size_t bytes = packed_bytes(kernel.type, shape.rows, shape.cols);
  const size_t n_copies = m == 1 ? kBeyondCaches / bytes + 1 : 1;
  const Bytes weights = finite_bytes(n_copies * bytes);
  const std::vector<float> x(m * shape.cols, 0.5F);
  std::vector<ActivationBlock> blocks(activation_blocks(m, shape.cols));
  std::vector<float> y(m * shape.rows);
  const PackedMatrix first{kernel.type, shape.rows, shape.cols, weights.get()};
  size_t copy = 0;
  for (auto _ : state) {
    const PackedMatrix w = stacked_matrix(first, copy++ % n_copies);
    const MatmulJob job{&w, {}, y.data(), shape.rows};
    Activations activations{x.data(), nullptr, m, shape.cols};
    if (is_quantized(kernel.type)) {
      activations = quantize_rows(exec, x.data(), m, shape.cols, blocks.data());
    }
    matmul(exec, activations, {&job, 1});
    benchmark::DoNotOptimize(y.data());
  }
  const auto n = static_cast<double>(state.iterations());
  if (m == 1) {
    state.SetBytesProcessed(static_cast<int64_t>(n * static_cast<double>(bytes)));
  } else {
    const double flops = 2.0 * static_cast<double>(shape.rows * shape.cols * m);
    state.counters["FLOP/s"] = benchmark::Counter(n * flops, benchmark::Counter::kIsRate);
  }
}

// The machine's limit for m = 1: reading memory front to back.
void read_memory(benchmark::State& state) {
  const Bytes bytes = finite_bytes(kBeyondCaches);
  const auto* words = reinterpret_cast<const uint64_t*>(bytes.get());
  for (auto _ : state) {
    uint64_t sums[8] = {};
    for (size_t i = 0; i < kBeyondCaches / 8; i += 8) {
      for (size_t j = 0; j < 8; ++j) sums[j] += words[i + j];
    }
    benchmark::DoNotOptimize(sums);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kBeyondCaches));
}

const bool kRegistered = [] {
  benchmark::RegisterBenchmark("matmul/read_memory", read_memory);
  for (const MatmulKernel& kernel : matmul_kernels()) {
    if (kernel.isa > cpu_isa() || kernel.isa == Isa::kScalar) continue;
    for (const Shape& shape : kShapes) {
      for (size_t m : kRows) {
        const std::string name =
            fmt::format("matmul/{}/{}x{}/{}", kernel.name, shape.rows, shape.cols, m);
        benchmark::RegisterBenchmark(name.c_str(), [&kernel, shape, m](benchmark::State& state) {
          run(state, kernel, shape, m);
        });
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace hf2q
