// Attention over a long cache, for each pair of equal formats: positions of one KV head per second,
// and stored bytes read per second.

#include "ops/attention.h"

#include <benchmark/benchmark.h>

#include <fmt/format.h>

#include <random>

#include "ops/attention_table.h"

namespace hf2q {
namespace {

constexpr uint32_t kPositions = 8192;

// n_rows query rows of one sequence at its end, four query heads on one KV head of 512.
void attend_at_depth(benchmark::State& state, KvFormat k, KvFormat v, uint32_t n_rows) {
  Exec exec(1);
  const PageLayout layout = {1, 1, 512, 32, k, v};
  std::vector<std::byte> memory(kPositions / 32 * layout.page_bytes());
  std::vector<std::byte*> pages;
  for (size_t i = 0; i < kPositions / 32; ++i)
    pages.push_back(memory.data() + i * layout.page_bytes());
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.3F);
  std::vector<float> values(512);
  for (uint32_t p = 0; p < kPositions; ++p) {
    for (float& x : values) x = normal(random);
    const KvRow row = {pages.data(), p, 0, 0};
    benchmark::DoNotOptimize(store_kv(exec, layout, 0, {&row, 1}, values.data(), values.data()));
  }
  std::vector<KvRow> rows;
  for (uint32_t r = 0; r < n_rows; ++r)
    rows.push_back({pages.data(), kPositions - 1, 0, kPositions});
  std::vector<float> q(n_rows * size_t{4} * 512);
  for (float& x : q) x = normal(random);
  std::vector<float> out(q.size());
  AttentionScratch scratch(1, 4, 512, kPositions);
  for (auto _ : state) attend(exec, {layout, 0, 4}, rows, q.data(), scratch, out.data());
  const auto n = static_cast<int64_t>(state.iterations());
  state.SetItemsProcessed(n * kPositions * n_rows);
  state.SetBytesProcessed(n * static_cast<int64_t>(memory.size()));
}

void register_all() {
  for (const KvFormatInfo& info : kKvFormats) {
    for (const uint32_t n_rows : {1U, 16U}) {
      benchmark::RegisterBenchmark(fmt::format("attend/{}/rows_{}", info.name, n_rows).c_str(),
                                   [format = info.format, n_rows](benchmark::State& state) {
                                     attend_at_depth(state, format, format, n_rows);
                                   })
          ->Unit(benchmark::kMillisecond);
    }
  }
}

[[maybe_unused]] const bool kRegistered = (register_all(), true);

}  // namespace
}  // namespace hf2q
