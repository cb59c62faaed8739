// What a prefix costs that is there already. Names: op/tokens.

#include "kv/prefix_tree.h"

#include <benchmark/benchmark.h>

#include "kv/sequence.h"

namespace hf2q {
namespace {

// A window and full layers as in a real model, with rows as small as they get.
std::vector<KvGroup> groups() {
  const KvLayerSpec layers[] = {{1024, 1, 16}, {0, 1, 16}};
  return plan_kv(layers, {}).value().groups;
}

std::vector<TokenKey> prompt(size_t n) {
  std::vector<TokenKey> keys;
  for (size_t i = 0; i < n; ++i)
    keys.push_back(TokenKey::token(static_cast<int32_t>(i * 37 % 5000)));
  return keys;
}

// A sequence that has read a prompt in batches of 512.
struct Cache {
  explicit Cache(size_t n_tokens)
      : pool(std::move(Pool::create(groups(), {uint64_t{1} << 30}).value())),
        tree(*pool),
        keys(prompt(n_tokens)),
        sequence(*pool, {UINT32_MAX}) {
    sequence.attach(tree, "", keys);
    for (size_t at = 0; at < n_tokens; at += 512) {
      const auto batch = std::span(keys).subspan(at, std::min<size_t>(512, n_tokens - at));
      (void)sequence.reserve(static_cast<uint32_t>(batch.size()));
      sequence.commit(static_cast<uint32_t>(batch.size()), batch);
    }
    sequence.mark(sequence.length());
  }

  std::unique_ptr<Pool> pool;
  PrefixTree tree;
  std::vector<TokenKey> keys;
  Sequence sequence;
};

void match(benchmark::State& state) {
  const Cache cache(static_cast<size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(cache.tree.match("", cache.keys));
}
BENCHMARK(match)->Name("prefix_match")->Arg(4000)->Arg(100000)->Unit(benchmark::kMicrosecond);

void attach_and_drop(benchmark::State& state) {
  Cache cache(static_cast<size_t>(state.range(0)));
  for (auto _ : state) {
    Sequence other(*cache.pool, {UINT32_MAX});
    benchmark::DoNotOptimize(other.attach(cache.tree, "", cache.keys));
  }
}
BENCHMARK(attach_and_drop)
    ->Name("prefix_attach_and_drop")
    ->Arg(4000)
    ->Arg(100000)
    ->Unit(benchmark::kMicrosecond);

void fork(benchmark::State& state) {
  Cache cache(static_cast<size_t>(state.range(0)));
  for (auto _ : state) {
    Sequence copy = cache.sequence.fork();
    benchmark::DoNotOptimize(copy);
    state.PauseTiming();
    copy.drop();
    state.ResumeTiming();
  }
}
BENCHMARK(fork)
    ->Name("sequence_fork")
    ->Arg(4000)
    ->Arg(100000)
    ->Arg(262144)
    ->Arg(1048576)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace hf2q
