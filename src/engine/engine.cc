#include "engine/engine.h"

#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "kv/plan.h"
#include "tokenizer/gguf_vocabulary.h"

namespace hf2q {
namespace {

constexpr uint32_t kMaxRollback = 64;
// Room for every sequence's pages of work and some sharing, beyond what lies at rest.
constexpr uint64_t kSpareDivisor = 64;

uint64_t free_memory() {
  const long pages = sysconf(_SC_AVPHYS_PAGES);
  const long size = sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(size) : 0;
}

Result<KvPlan> plan_cache(const Config& config, const EngineOptions& options) {
  std::vector<KvLayerSpec> layers;
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    const LayerConfig& layer = config.layers[i];
    layers.push_back({layer.sliding ? config.sliding_window : 0, layer.n_kv_heads, layer.head_dim,
                      config.owns_kv(i)});
  }
  return plan_kv(layers, options.kv_formats);
}

WorkspaceLimits limits_of(const EngineOptions& options, uint32_t n_ctx) {
  return {options.max_rows, options.max_outputs, n_ctx};
}

MemoryPlan plan_memory(const Config& config, const KvPlan& kv, uint64_t weights, size_t n_threads,
                       const EngineOptions& options) {
  MemoryPlan plan;
  plan.weights = weights;
  plan.n_ctx = options.n_ctx > 0 ? options.n_ctx : config.n_ctx_train;
  plan.scratch = Workspace::bytes(config, n_threads, limits_of(options, plan.n_ctx));
  uint64_t one_sequence = 0;
  for (const KvGroup& group : kv.groups) {
    const uint64_t page = group.layout.page_bytes();
    const uint64_t rest = pages_at_rest(group, plan.n_ctx, kMaxRollback) * page;
    const uint64_t before = plan.n_ctx - std::min(plan.n_ctx, options.max_rows);
    const uint64_t work = pages_in_pass(group, before, plan.n_ctx - before, kMaxRollback) * page;
    plan.groups.push_back(
        {group.window, group.layout.n_layers, group.layout, rest, work - std::min(work, rest)});
    one_sequence += std::max(rest, work) + page;  // and a page that is copied before it is written
  }
  const uint64_t wanted = one_sequence * options.n_sequences;
  const uint64_t with_spare = wanted + wanted / kSpareDivisor;
  plan.kv_budget = options.kv_budget_bytes > 0 ? options.kv_budget_bytes
                                               : std::min(with_spare, free_memory() / 2);
  return plan;
}

}  // namespace

Result<MemoryPlan> Engine::plan(const std::string& path, const EngineOptions& options) {
  TRY(file, GgufFile::open(path));
  TRY(config, read_config(file));
  TRY(kv, plan_cache(config, options));
  TRY(weights, plan_weights(file, {options.mmap, {}}));
  const size_t n_threads = options.n_threads > 0 ? options.n_threads : Exec(0).n_threads();
  return plan_memory(config, kv, weights, n_threads, options);
}

Result<std::unique_ptr<Engine>> Engine::load(const std::string& path,
                                             const EngineOptions& options) {
  TRY(file, GgufFile::open(path));
  TRY(vocabulary, read_gguf_vocabulary(file));
  TRY(tokenizer, Tokenizer::create(std::move(vocabulary), path));
  auto exec = std::make_unique<Exec>(options.n_threads);
  TRY(weights, load_weights(file, {options.mmap, options.on_progress}, *exec));
  TRY(kv, plan_cache(weights.config, options));
  MemoryPlan memory =
      plan_memory(weights.config, kv, weights.resident_bytes, exec->n_threads(), options);
  TRY(pool, Pool::create(kv.groups, {memory.kv_budget, false}));
  return std::unique_ptr<Engine>(new Engine(std::move(file), std::move(tokenizer),
                                            std::move(weights), std::move(kv), std::move(memory),
                                            std::move(exec), std::move(pool), options));
}

Engine::Engine(GgufFile file, Tokenizer tokenizer, Weights weights, KvPlan kv, MemoryPlan memory,
               std::unique_ptr<Exec> exec, std::unique_ptr<Pool> pool, const EngineOptions& options)
    : file_(std::move(file)),
      tokenizer_(std::move(tokenizer)),
      exec_owner_(std::move(exec)),
      exec_(*exec_owner_),
      weights_(std::move(weights)),
      kv_(std::move(kv)),
      memory_(std::move(memory)),
      pool_(std::move(pool)),
      prefixes_(*pool_),
      workspace_(weights_, exec_, limits_of(options, memory_.n_ctx)) {}

Sequence Engine::new_sequence() {
  return Sequence(*pool_, {memory_.n_ctx, kMaxRollback});
}

// Keeps what the batch has of a sequence.
void Engine::commit(const Batch& batch, Sequence& sequence, uint32_t index) {
  if (!sequence.is_attached()) return sequence.commit(n_rows_[index]);
  keys_.clear();
  for (const BatchRow& row : batch.rows) {
    if (row.sequence != index) continue;
    CHECK(row.soft < static_cast<int64_t>(batch.soft_keys.size()));
    keys_.push_back(row.soft < 0 ? TokenKey::token(row.token)
                                 : batch.soft_keys[static_cast<size_t>(row.soft)]);
  }
  sequence.commit(n_rows_[index], keys_);
}

Status Engine::run(const Batch& batch, std::span<Sequence* const> sequences,
                   const Observer* observer) {
  n_rows_.assign(sequences.size(), 0);
  for (const BatchRow& row : batch.rows) {
    CHECK(row.sequence < sequences.size());
    ++n_rows_[row.sequence];
  }
  for (size_t s = 0; s < sequences.size(); ++s) {
    if (KvStatus failed = sequences[s]->reserve(n_rows_[s])) {
      for (size_t done = 0; done < s; ++done) sequences[done]->commit(0);
      return to_error(*failed);
    }
  }
  pages_.clear();
  for (Sequence* sequence : sequences) {
    for (size_t g = 0; g < kv_.groups.size(); ++g) pages_.push_back(sequence->pages(g).data());
  }
  const std::optional<BadRow> bad =
      forward(exec_, weights_, batch, {kv_.groups, kv_.places, pages_}, workspace_, observer);
  for (uint32_t s = 0; s < sequences.size(); ++s) {
    if (bad) {
      sequences[s]->commit(0);
    } else {
      commit(batch, *sequences[s], s);
    }
  }
  if (!bad) return Ok{};
  return error(ErrorCode::kCorrupt,
               "layer {}, position {}: finite K and V expected, found NaN or infinity", bad->layer,
               batch.rows[bad->row].position);
}

}  // namespace hf2q
