#include "engine/engine.h"

#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "kv/plan.h"
#include "tokenizer/gguf_vocabulary.h"

namespace hf2q {
namespace {

constexpr uint32_t kMaxRollback = Engine::kMaxRollback;
// Room for every sequence's pages of work and some sharing, beyond what lies at rest.
constexpr uint64_t kSpareDivisor = 64;

uint64_t free_memory() {
  const long pages = sysconf(_SC_AVPHYS_PAGES);
  const long size = sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(size) : 0;
}

Result<KvPlan> plan_cache(const Config& config, const KvFormats& formats) {
  std::vector<KvLayerSpec> layers;
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    const LayerConfig& layer = config.layers[i];
    layers.push_back({layer.sliding ? config.sliding_window : 0, layer.n_kv_heads, layer.head_dim,
                      config.owns_kv(i)});
  }
  return plan_kv(layers, formats);
}

WorkspaceLimits limits_of(const EngineOptions& options, uint32_t n_ctx) {
  return {options.max_rows, options.max_outputs, n_ctx};
}

constexpr KvFormats kExactFormats = {KvFormat::kF32, KvFormat::kF32, KvFormat::kF32,
                                     KvFormat::kF32};

// Most bytes of one sequence of n_ctx tokens that is read in batches of max_rows.
uint64_t bytes_in_pass(const KvGroup& group, uint32_t n_ctx, uint32_t max_rows) {
  const uint64_t before = n_ctx - std::min(n_ctx, max_rows);
  return pages_in_pass(group, before, n_ctx - before, kMaxRollback) * group.layout.page_bytes();
}

// Zero without PromptKv::kExact.
Result<uint64_t> exact_bytes(const Config& config, uint32_t n_ctx, const EngineOptions& options) {
  if (options.prompt_kv == PromptKv::kStored) return uint64_t{0};
  TRY(plan, plan_cache(config, kExactFormats));
  uint64_t bytes = 0;
  for (const KvGroup& group : plan.groups) {
    const uint64_t page = group.layout.page_bytes();
    const uint64_t rest = pages_at_rest(group, n_ctx, kMaxRollback) * page;
    bytes += std::max(rest, bytes_in_pass(group, n_ctx, options.max_rows)) + page;
  }
  return bytes + bytes / kSpareDivisor;
}

std::vector<KvGroup> groups_of(const Pool* pool) {
  std::vector<KvGroup> groups;
  for (size_t g = 0; pool != nullptr && g < pool->n_groups(); ++g) groups.push_back(pool->group(g));
  return groups;
}

Result<MemoryPlan> plan_memory(const Config& config, const KvPlan& kv, uint64_t weights,
                               size_t n_threads, const EngineOptions& options) {
  MemoryPlan plan;
  plan.weights = weights;
  plan.n_ctx = options.n_ctx > 0 ? options.n_ctx : config.n_ctx_train;
  plan.scratch = Workspace::bytes(config, n_threads, limits_of(options, plan.n_ctx));
  uint64_t one_sequence = 0;
  for (const KvGroup& group : kv.groups) {
    const uint64_t page = group.layout.page_bytes();
    const uint64_t rest = pages_at_rest(group, plan.n_ctx, kMaxRollback) * page;
    const uint64_t work = bytes_in_pass(group, plan.n_ctx, options.max_rows);
    plan.groups.push_back(
        {group.window, group.layout.n_layers, group.layout, rest, work - std::min(work, rest)});
    one_sequence += std::max(rest, work) + page;  // and a page that is copied before it is written
  }
  TRY(exact, exact_bytes(config, plan.n_ctx, options));
  plan.exact = exact;
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
  TRY(kv, plan_cache(config, options.kv_formats));
  TRY(weights, plan_weights(file, {options.mmap, {}}));
  const size_t n_threads = options.n_threads > 0 ? options.n_threads : Exec::default_threads();
  return plan_memory(config, kv, weights, n_threads, options);
}

Result<std::unique_ptr<Engine>> Engine::load(const std::string& path,
                                             const EngineOptions& options) {
  TRY(file, GgufFile::open(path));
  TRY(vocabulary, read_gguf_vocabulary(file));
  TRY(tokenizer, Tokenizer::create(std::move(vocabulary), path));
  TRY(exec, Exec::create(options.n_threads));
  TRY(weights, load_weights(file, {options.mmap, options.on_progress}, *exec));
  auto model = std::make_shared<const Model>(
      Model{std::move(file), std::move(tokenizer), std::move(weights)});
  return create(std::move(model), std::move(exec), options);
}

Result<std::unique_ptr<Engine>> Engine::with_other_cache(const EngineOptions& options) const {
  TRY(exec, Exec::create(options.n_threads));
  return create(model_, std::move(exec), options);
}

Result<std::unique_ptr<Engine>> Engine::create(std::shared_ptr<const Model> model,
                                               std::unique_ptr<Exec> exec,
                                               const EngineOptions& options) {
  const Weights& weights = model->weights;
  TRY(kv, plan_cache(weights.config, options.kv_formats));
  TRY(memory, plan_memory(weights.config, kv, weights.resident_bytes, exec->n_threads(), options));
  TRY(pool, Pool::create(kv.groups, {memory.kv_budget, false}));
  std::unique_ptr<Pool> exact_pool;
  if (memory.exact > 0) {
    TRY(exact, plan_cache(weights.config, kExactFormats));
    TRY(made, Pool::create(exact.groups, {memory.exact, false}));
    exact_pool = std::move(made);
  }
  return std::unique_ptr<Engine>(new Engine(std::move(model), std::move(kv), std::move(memory),
                                            std::move(exec), std::move(pool), std::move(exact_pool),
                                            options));
}

Engine::Engine(std::shared_ptr<const Model> model, KvPlan kv, MemoryPlan memory,
               std::unique_ptr<Exec> exec, std::unique_ptr<Pool> pool,
               std::unique_ptr<Pool> exact_pool, const EngineOptions& options)
    : model_(std::move(model)),
      exec_owner_(std::move(exec)),
      exec_(*exec_owner_),
      kv_(std::move(kv)),
      memory_(std::move(memory)),
      pool_(std::move(pool)),
      exact_pool_(std::move(exact_pool)),
      exact_groups_(groups_of(exact_pool_.get())),
      prefixes_(*pool_),
      workspace_(model_->weights, exec_, limits_of(options, memory_.n_ctx)) {}

const Digest& Engine::model_digest() {
  if (!model_digest_) model_digest_ = file().digest();
  return *model_digest_;
}

Sequence Engine::new_sequence() {
  return Sequence(*pool_, {memory_.n_ctx, kMaxRollback});
}

std::optional<Sequence> Engine::new_exact_sequence() {
  if (exact_pool_ == nullptr) return std::nullopt;
  return Sequence(*exact_pool_, {memory_.n_ctx, kMaxRollback});
}

// Keeps what the batch has of a sequence.
void Engine::commit(const Batch& batch, Sequence& sequence, uint32_t index) {
  const auto last = std::find_if(batch.rows.rbegin(), batch.rows.rend(),
                                 [&](const BatchRow& row) { return row.sequence == index; });
  const int32_t last_block = last == batch.rows.rend() ? -1 : last->block;
  if (!sequence.is_attached()) return sequence.commit(n_rows_[index], {}, last_block);
  keys_.clear();
  for (const BatchRow& row : batch.rows) {
    if (row.sequence != index) continue;
    CHECK(row.soft < static_cast<int64_t>(batch.soft_keys.size()));
    keys_.push_back(row.soft < 0 ? TokenKey::token(row.token)
                                 : batch.soft_keys[static_cast<size_t>(row.soft)]);
  }
  sequence.commit(n_rows_[index], keys_, last_block);
}

// Room for n_rows_ in every sequence, or nowhere.
KvStatus Engine::reserve(std::span<Sequence* const> sequences, Sequence* exact) {
  for (size_t s = 0; s < sequences.size(); ++s) {
    KvStatus failed = sequences[s]->reserve(n_rows_[s]);
    if (!failed && exact != nullptr) {
      failed = exact->reserve(n_rows_[s]);
      if (failed) sequences[s]->commit(0);
    }
    if (!failed) continue;
    for (size_t done = 0; done < s; ++done) sequences[done]->commit(0);
    return failed;
  }
  return std::nullopt;
}

Status Engine::run(const Batch& batch, std::span<Sequence* const> sequences,
                   const Observer* observer, Sequence* exact) {
  CHECK(exact == nullptr || sequences.size() == 1);
  failed_sequence_.reset();
  n_rows_.assign(sequences.size(), 0);
  for (const BatchRow& row : batch.rows) {
    CHECK(row.sequence < sequences.size());
    const bool is_first = n_rows_[row.sequence] == 0;
    if (is_first && row.block >= 0 && row.block == sequences[row.sequence]->last_block()) {
      return error(ErrorCode::kInvalidArgument,
                   "block {}: all rows in one batch expected, found one more at position {}",
                   row.block, row.position);
    }
    ++n_rows_[row.sequence];
  }
  if (const KvStatus failed = reserve(sequences, exact)) return to_error(*failed);
  pages_.clear();
  for (Sequence* sequence : sequences) {
    for (size_t g = 0; g < kv_.groups.size(); ++g) pages_.push_back(sequence->pages(g).data());
  }
  CacheView cache = {kv_.groups, kv_.places, pages_};
  if (exact != nullptr) {
    exact_pages_.clear();
    for (size_t g = 0; g < kv_.groups.size(); ++g) exact_pages_.push_back(exact->pages(g).data());
    cache.exact_groups = exact_groups_;
    cache.exact_pages = exact_pages_;
  }
  const std::optional<BadRow> bad = forward(exec_, weights(), batch, cache, workspace_, observer);
  if (exact != nullptr) exact->commit(bad ? 0 : n_rows_[0]);
  for (uint32_t s = 0; s < sequences.size(); ++s) {
    if (bad) {
      sequences[s]->commit(0);
    } else {
      commit(batch, *sequences[s], s);
    }
  }
  if (!bad) return Ok{};
  failed_sequence_ = batch.rows[bad->row].sequence;
  return error(ErrorCode::kCorrupt,
               "layer {}, position {}: finite K and V expected, found NaN or infinity", bad->layer,
               batch.rows[bad->row].position);
}

}  // namespace hf2q
