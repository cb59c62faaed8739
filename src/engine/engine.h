#pragma once
// A loaded model with its cache and working memory: what commands and the server run on.
// One calling thread; the Engine owns the threads that compute.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "forward/forward.h"
#include "gguf/reader.h"
#include "kv/pool.h"
#include "kv/prefix_tree.h"
#include "kv/sequence.h"
#include "model/weights.h"
#include "ops/exec.h"
#include "tokenizer/tokenizer.h"

namespace hf2q {

// What a prompt attends to: its stored rows, as every later token will; or its rows in F32, kept
// until its end beside the stored ones.
enum class PromptKv : uint8_t { kStored, kExact };

struct EngineOptions {
  uint32_t n_ctx = 0;        // most tokens of one sequence; 0: the model's context
  uint32_t n_sequences = 1;  // that the default cache budget is made for
  uint32_t max_rows = 512;   // of one batch
  uint32_t max_outputs = 1;  // rows of one batch that want logits
  size_t n_threads = 0;      // 0: one for each processor
  KvFormats kv_formats;      // f16 for K and tq8 for V
  PromptKv prompt_kv = PromptKv::kStored;
  uint64_t kv_budget_bytes = 0;  // 0: sequences of n_ctx tokens, at most half of the free memory
  bool mmap = false;             // keep the mapping of the file where rows are read singly
  std::function<void(uint64_t done, uint64_t total)> on_progress;  // while weights are loaded
};

// Bytes, known before any of them is allocated.
struct MemoryPlan {
  struct Group {
    uint32_t window;  // 0: all tokens are kept
    uint32_t n_layers;
    PageLayout layout;
    uint64_t bytes_at_rest;  // of one sequence of n_ctx tokens
    uint64_t bytes_in_pass;  // more while a batch of max_rows is in work
  };
  uint64_t weights = 0;
  uint64_t scratch = 0;
  uint64_t kv_budget = 0;
  uint64_t exact = 0;  // F32 rows of one prompt of n_ctx tokens, while it is read
  uint32_t n_ctx = 0;
  std::vector<Group> groups;
};

class Engine {
 public:
  static constexpr uint32_t kMaxRollback = 64;  // of its sequences

  // Errors as GgufFile::open, read_gguf_vocabulary, load_weights and plan_kv.
  static Result<std::unique_ptr<Engine>> load(const std::string& path,
                                              const EngineOptions& options);
  static Result<MemoryPlan> plan(const std::string& path, const EngineOptions& options);
  // A second engine on the weights of this one, which are in memory once: with a cache and threads
  // of its own. options.mmap and on_progress have no effect. Errors as plan_kv.
  Result<std::unique_ptr<Engine>> with_other_cache(const EngineOptions& options) const;

  const Config& config() const { return model_->weights.config; }
  const Tokenizer& tokenizer() const { return model_->tokenizer; }
  const GgufFile& file() const { return model_->file; }
  // What the model is known by where rows are kept: of its file's bytes, which the first call
  // reads.
  const Digest& model_digest();
  const Weights& weights() const { return model_->weights; }
  const KvPlan& kv() const { return kv_; }
  const MemoryPlan& memory() const { return memory_; }
  uint32_t n_ctx() const { return memory_.n_ctx; }
  uint32_t max_rows() const { return workspace_.limits().max_rows; }
  uint32_t max_outputs() const { return workspace_.limits().max_outputs; }
  Pool& pool() { return *pool_; }
  // What sequences have read; Sequence::attach begins with it.
  PrefixTree& prefixes() { return prefixes_; }
  size_t n_threads() const { return exec_.n_threads(); }

  Sequence new_sequence();
  // For the F32 rows of a prompt; nothing when PromptKv::kStored was asked for.
  std::optional<Sequence> new_exact_sequence();

  // Reserves room in every sequence, runs the batch and commits it. Rows name sequences by their
  // index in `sequences`. Where one of them is attached to a prefix tree its soft rows have keys,
  // which also tell additions and rotary axes apart. On an error (no room, or a value of K or V
  // that is not finite; kInvalidArgument: a block that the batch before has begun) no sequence has
  // changed its length. `exact`, of a batch of one sequence, is written as well, and attention
  // reads it instead.
  Status run(const Batch& batch, std::span<Sequence* const> sequences,
             const Observer* observer = nullptr, Sequence* exact = nullptr);
  // Whose row of K or V was not finite when the last run() failed for that: index in `sequences`.
  std::optional<uint32_t> failed_sequence() const { return failed_sequence_; }
  // Of the last run(), one row for each batch row that wanted them.
  std::span<const float> logits() const { return workspace_.logits(); }
  std::span<const float> hidden() const { return workspace_.hidden(); }

 private:
  void commit(const Batch& batch, Sequence& sequence, uint32_t index);
  KvStatus reserve(std::span<Sequence* const> sequences, Sequence* exact);
  // What engines share.
  struct Model {
    GgufFile file;
    Tokenizer tokenizer;
    Weights weights;
  };
  static Result<std::unique_ptr<Engine>> create(std::shared_ptr<const Model> model,
                                                std::unique_ptr<Exec> exec,
                                                const EngineOptions& options);
  Engine(std::shared_ptr<const Model> model, KvPlan kv, MemoryPlan memory,
         std::unique_ptr<Exec> exec, std::unique_ptr<Pool> pool, std::unique_ptr<Pool> exact_pool,
         const EngineOptions& options);

  std::shared_ptr<const Model> model_;
  std::unique_ptr<Exec> exec_owner_;
  Exec& exec_;
  KvPlan kv_;
  MemoryPlan memory_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<Pool> exact_pool_;  // or none
  std::vector<KvGroup> exact_groups_;
  PrefixTree prefixes_;
  Workspace workspace_;
  std::vector<std::byte* const*> pages_;
  std::vector<std::byte* const*> exact_pages_;
  std::vector<uint32_t> n_rows_;
  std::optional<uint32_t> failed_sequence_;
  std::vector<TokenKey> keys_;
  std::optional<Digest> model_digest_;
};

}  // namespace hf2q
