#include "model/weights.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "base/mapped_file.h"
#include "quant/row_codec.h"

namespace hf2q {
namespace {

constexpr size_t kAlignment = 64;
// Rows of one piece of packing: a multiple of the tile height, so that pieces are independent.
constexpr size_t kPieceRows = 256;

size_t round_up(size_t value, size_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

TensorType type_of(const GgufTensor& tensor) {
  return static_cast<TensorType>(tensor.type->id);
}

// Where a run of rows comes from and where it goes; dst is an offset into the weights' memory.
struct PackJob {
  TensorType type;
  const std::byte* src;
  size_t n_rows;
  size_t cols;
  size_t dst;
};

struct CopyJob {
  std::span<const std::byte> src;
  size_t dst;
};

// A stack of experts whose gate and up rows lie in two tensors: they are put together for packing.
struct FuseJob {
  TensorType type;
  const std::byte* gate;
  const std::byte* up;
  size_t n_experts;
  size_t rows_each;  // of gate and of up
  size_t cols;
  size_t dst;
};

struct FloatJob {
  const GgufTensor* tensor;
  size_t dst;
};

}  // namespace

void read_row(const RowTable& table, size_t row, float* dst) {
  DCHECK(row < table.rows);
  row_codec(table.type)
      .decode(table.data + row * row_bytes(table.type, table.cols), table.cols, dst);
}

void Weights::read_embedding(int32_t token, float* dst) const {
  const auto row = static_cast<size_t>(token);
  if (embedding.rows > 0) {
    read_row(embedding, row, dst);
  } else {
    unpack_row(head, row, dst);
  }
}

// Lists what has to be loaded (plan), then allocates and fills it (load). Errors are collected in
// order; the first one is reported.
class WeightLoader {
 public:
  WeightLoader(const GgufFile& file, const LoadOptions& options) : file_(file), options_(options) {}

  Status plan();
  uint64_t bytes() const { return size_; }
  Result<Weights> load(Exec& exec);

 private:
  const GgufTensor* find(const std::string& name, const std::vector<uint64_t>& dims,
                         bool required = true);
  size_t reserve(size_t bytes);
  void add_floats(const std::string& name, size_t n, std::span<const float>& target,
                  bool required = true);
  void add_matrix(const std::string& name, size_t rows, size_t cols, PackedMatrix& target,
                  bool required = true);
  void add_stack(const std::string& name, size_t n, size_t rows, size_t cols, PackedMatrix& target);
  void add_rows(const GgufTensor& tensor, size_t first_row, size_t rows, PackedMatrix& target);
  void add_table(const std::string& name, size_t rows, size_t cols, RowTable& target);
  void add_globals();
  void check_rope_factors();
  void add_layer(uint32_t i);
  bool any_layer_has(const std::string& name) const;
  bool needs_v(const LayerConfig& layer) const;
  void add_qkv(const std::string& blk, uint32_t i);
  void add_moe(const std::string& blk, MoeWeights& moe);
  void add_separate_gate_up(const std::string& blk, MoeWeights& moe);
  void note(Error failure) {
    if (!failure_) failure_ = std::move(failure);
  }
  void relocate(std::byte* base);
  void fill(Exec& exec, std::byte* base);
  void pack(Exec& exec, std::byte* base, const PackJob& job);
  void fuse(Exec& exec, std::byte* base, const FuseJob& job);
  void progress(size_t bytes);

  const GgufFile& file_;
  const LoadOptions& options_;
  Weights weights_;
  size_t size_ = 0;
  std::vector<PackJob> packs_;
  std::vector<FuseJob> fuses_;
  std::vector<CopyJob> copies_;
  std::vector<FloatJob> floats_;
  // Pointers that hold an offset until the memory is there.
  std::vector<const std::byte**> pointers_;
  std::vector<std::span<const float>*> spans_;
  uint64_t source_bytes_ = 0;
  uint64_t done_bytes_ = 0;
  std::optional<Error> failure_;
};

const GgufTensor* WeightLoader::find(const std::string& name, const std::vector<uint64_t>& dims,
                                     bool required) {
  const GgufTensor* tensor = file_.find_tensor(name);
  if (tensor == nullptr) {
    if (required) {
      note(error(ErrorCode::kNotFound, "{}: {}: a tensor [{}] expected, found none", file_.path(),
                 name, fmt::join(dims, ", ")));
    }
    return nullptr;
  }
  std::array<uint64_t, 4> expected = {1, 1, 1, 1};
  std::copy(dims.begin(), dims.end(), expected.begin());
  if (tensor->dims != expected) {
    note(error(ErrorCode::kCorrupt, "{}: {}: shape [{}] expected, found [{}]", file_.path(), name,
               fmt::join(dims, ", "),
               fmt::join(tensor->dims.begin(), tensor->dims.begin() + tensor->n_dims, ", ")));
    return nullptr;
  }
  if (!tensor->type->supported) {
    note(error(ErrorCode::kUnsupported, "{}: {}: no kernel for type {}", file_.path(), name,
               tensor->type->name));
    return nullptr;
  }
  return tensor;
}

size_t WeightLoader::reserve(size_t bytes) {
  const size_t offset = size_;
  size_ += round_up(bytes, kAlignment);
  return offset;
}

void WeightLoader::add_floats(const std::string& name, size_t n, std::span<const float>& target,
                              bool required) {
  const GgufTensor* tensor = find(name, {n}, required);
  if (tensor == nullptr) return;
  const size_t offset = reserve(n * sizeof(float));
  floats_.push_back({tensor, offset});
  target = {reinterpret_cast<const float*>(offset), n};  // NOLINT: an offset until relocate()
  spans_.push_back(&target);
}

void WeightLoader::add_rows(const GgufTensor& tensor, size_t first_row, size_t rows,
                            PackedMatrix& target) {
  const size_t cols = tensor.dims[0];
  const TensorType type = type_of(tensor);
  const size_t offset = reserve(packed_bytes(type, rows, cols));
  packs_.push_back(
      {type, tensor.data.data() + first_row * row_bytes(type, cols), rows, cols, offset});
  source_bytes_ += rows * row_bytes(type, cols);
  target = {type, rows, cols, reinterpret_cast<const std::byte*>(offset)};  // NOLINT: as above
  pointers_.push_back(&target.data);
}

void WeightLoader::add_matrix(const std::string& name, size_t rows, size_t cols,
                              PackedMatrix& target, bool required) {
  const GgufTensor* tensor = find(name, {cols, rows}, required);
  if (tensor != nullptr) add_rows(*tensor, 0, rows, target);
}

void WeightLoader::add_stack(const std::string& name, size_t n, size_t rows, size_t cols,
                             PackedMatrix& target) {
  const GgufTensor* tensor = find(name, {cols, rows, n});
  if (tensor == nullptr) return;
  PackedMatrix first;
  for (size_t i = 0; i < n; ++i) {
    PackedMatrix each;
    add_rows(*tensor, i * rows, rows, each);
    pointers_.pop_back();  // only the first one is kept
    if (i == 0) first = each;
  }
  target = first;
  pointers_.push_back(&target.data);
}

void WeightLoader::add_table(const std::string& name, size_t rows, size_t cols, RowTable& target) {
  const GgufTensor* tensor = find(name, {cols, rows});
  if (tensor == nullptr) return;
  target = {type_of(*tensor), rows, cols, tensor->data.data()};
  if (options_.mmap) return;
  const size_t offset = reserve(tensor->data.size());
  copies_.push_back({tensor->data, offset});
  source_bytes_ += tensor->data.size();
  target.data = reinterpret_cast<const std::byte*>(offset);  // NOLINT: as above
  pointers_.push_back(&target.data);
}

void WeightLoader::add_globals() {
  const Config& config = weights_.config;
  const size_t hidden = config.hidden_dim;
  weights_.config.tied = file_.find_tensor("output.weight") == nullptr;
  if (weights_.config.tied) {
    add_matrix("token_embd.weight", config.vocab_size, hidden, weights_.head);
  } else {
    add_matrix("output.weight", config.vocab_size, hidden, weights_.head);
    add_table("token_embd.weight", config.vocab_size, hidden, weights_.embedding);
  }
  add_floats("output_norm.weight", hidden, weights_.output_norm);
  const bool any_full =
      std::ranges::any_of(config.layers, [](const auto& l) { return !l.sliding; });
  if (any_full) {
    add_floats("rope_freqs.weight", config.head_dim_full / 2, weights_.rope_factors);
    if (!failure_) check_rope_factors();
  }
  if (config.ple_dim == 0) return;
  const size_t width = size_t{config.ple_dim} * config.n_layers;
  add_table("per_layer_token_embd.weight", config.vocab_size, width, weights_.ple_embedding);
  add_matrix("per_layer_model_proj.weight", width, hidden, weights_.ple_model_proj);
  add_floats("per_layer_proj_norm.weight", config.ple_dim, weights_.ple_proj_norm);
}

bool WeightLoader::any_layer_has(const std::string& name) const {
  for (uint32_t i = 0; i < weights_.config.n_layers; ++i) {
    if (file_.find_tensor(fmt::format("blk.{}.{}", i, name)) != nullptr) return true;
  }
  return false;
}

// V may come from the K projection on full layers, and then on all of them.
bool WeightLoader::needs_v(const LayerConfig& layer) const {
  if (layer.sliding) return true;
  for (uint32_t i = 0; i < weights_.config.n_layers; ++i) {
    if (weights_.config.layers[i].sliding) continue;
    if (file_.find_tensor(fmt::format("blk.{}.attn_v.weight", i)) != nullptr) return true;
  }
  return false;
}

// Q, K and V as three tensors, or as one whose rows are Q, then K, then V.
void WeightLoader::add_qkv(const std::string& blk, uint32_t i) {
  const Config& config = weights_.config;
  const LayerConfig& layer = config.layers[i];
  LayerWeights& w = weights_.layers[i];
  const size_t q_dim = size_t{config.n_heads} * layer.head_dim;
  const size_t kv_dim = size_t{layer.n_kv_heads} * layer.head_dim;
  if (file_.find_tensor(blk + "attn_qkv.weight") != nullptr) {
    const GgufTensor* fused =
        find(blk + "attn_qkv.weight", {config.hidden_dim, q_dim + 2 * kv_dim});
    if (fused == nullptr) return;
    add_rows(*fused, 0, q_dim, w.q);
    if (!config.owns_kv(i)) return;
    add_rows(*fused, q_dim, kv_dim, w.k);
    add_rows(*fused, q_dim + kv_dim, kv_dim, w.v);
    return;
  }
  add_matrix(blk + "attn_q.weight", q_dim, config.hidden_dim, w.q);
  if (!config.owns_kv(i)) return;
  add_matrix(blk + "attn_k.weight", kv_dim, config.hidden_dim, w.k);
  add_matrix(blk + "attn_v.weight", kv_dim, config.hidden_dim, w.v, needs_v(layer));
}

void WeightLoader::add_separate_gate_up(const std::string& blk, MoeWeights& moe) {
  const Config& config = weights_.config;
  const std::vector<uint64_t> dims = {config.hidden_dim, config.expert_ffn_dim, config.n_experts};
  const GgufTensor* gate = find(blk + "ffn_gate_exps.weight", dims);
  const GgufTensor* up = find(blk + "ffn_up_exps.weight", dims);
  if (gate == nullptr || up == nullptr) return;
  if (gate->type != up->type) {
    note(error(ErrorCode::kUnsupported,
               "{}: {}ffn_up_exps.weight: type {} expected as of the gate, found {}", file_.path(),
               blk, gate->type->name, up->type->name));
    return;
  }
  const TensorType type = type_of(*gate);
  const size_t rows = size_t{2} * config.expert_ffn_dim;
  const size_t offset = reserve(config.n_experts * packed_bytes(type, rows, config.hidden_dim));
  fuses_.push_back({type, gate->data.data(), up->data.data(), config.n_experts,
                    config.expert_ffn_dim, config.hidden_dim, offset});
  source_bytes_ += gate->data.size() + up->data.size();
  moe.gate_up = {type, rows, config.hidden_dim,
                 reinterpret_cast<const std::byte*>(offset)};  // NOLINT
  pointers_.push_back(&moe.gate_up.data);
}

void WeightLoader::add_moe(const std::string& blk, MoeWeights& moe) {
  const Config& config = weights_.config;
  const size_t hidden = config.hidden_dim;
  add_matrix(blk + "ffn_gate_inp.weight", config.n_experts, hidden, moe.router);
  add_floats(blk + "ffn_gate_inp.scale", hidden, moe.router_scale);
  add_floats(blk + "ffn_down_exps.scale", config.n_experts, moe.expert_scale);
  add_floats(blk + "pre_ffw_norm_2.weight", hidden, moe.pre_norm);
  add_floats(blk + "post_ffw_norm_1.weight", hidden, moe.dense_post_norm);
  add_floats(blk + "post_ffw_norm_2.weight", hidden, moe.expert_post_norm);
  add_stack(blk + "ffn_down_exps.weight", config.n_experts, hidden, config.expert_ffn_dim,
            moe.down);
  const bool fused = file_.find_tensor(blk + "ffn_gate_up_exps.weight") != nullptr ||
                     file_.find_tensor(blk + "ffn_gate_exps.weight") == nullptr;
  if (fused) {
    add_stack(blk + "ffn_gate_up_exps.weight", config.n_experts, size_t{2} * config.expert_ffn_dim,
              hidden, moe.gate_up);
  } else {
    add_separate_gate_up(blk, moe);
  }
}

void WeightLoader::add_layer(uint32_t i) {
  const Config& config = weights_.config;
  const LayerConfig& layer = config.layers[i];
  const std::string blk = fmt::format("blk.{}.", i);
  const size_t hidden = config.hidden_dim;
  const size_t q_dim = size_t{config.n_heads} * layer.head_dim;
  LayerWeights& w = weights_.layers[i];
  add_floats(blk + "attn_norm.weight", hidden, w.attn_norm);
  add_qkv(blk, i);
  add_floats(blk + "attn_q_norm.weight", layer.head_dim, w.q_norm);
  if (config.owns_kv(i)) add_floats(blk + "attn_k_norm.weight", layer.head_dim, w.k_norm);
  add_matrix(blk + "attn_output.weight", hidden, q_dim, w.o);
  add_floats(blk + "post_attention_norm.weight", hidden, w.post_attn_norm);
  add_floats(blk + "ffn_norm.weight", hidden, w.ffn_norm);
  add_matrix(blk + "ffn_gate.weight", layer.ffn_dim, hidden, w.gate);
  add_matrix(blk + "ffn_up.weight", layer.ffn_dim, hidden, w.up);
  add_matrix(blk + "ffn_down.weight", hidden, layer.ffn_dim, w.down);
  add_floats(blk + "post_ffw_norm.weight", hidden, w.post_ffn_norm);
  const GgufTensor* scale = file_.find_tensor(blk + "layer_output_scale.weight");
  const size_t n_scale = scale != nullptr && scale->dims[0] == hidden ? hidden : 1;
  add_floats(blk + "layer_output_scale.weight", n_scale, w.output_scale,
             any_layer_has("layer_output_scale.weight"));
  if (config.n_experts > 0) add_moe(blk, w.moe);
  if (config.ple_dim > 0) {
    add_matrix(blk + "inp_gate.weight", config.ple_dim, hidden, w.ple_gate);
    add_matrix(blk + "proj.weight", hidden, config.ple_dim, w.ple_proj);
    add_floats(blk + "post_norm.weight", hidden, w.ple_post_norm);
  }
}

// The pairs that turn come first, so that a pass can leave out the others.
void WeightLoader::check_rope_factors() {
  const GgufTensor* tensor = file_.find_tensor("rope_freqs.weight");
  std::vector<float> factors(tensor->n_elements());
  row_codec(type_of(*tensor)).decode(tensor->data.data(), factors.size(), factors.data());
  float before = 0;
  for (size_t i = 0; i < factors.size(); ++i) {
    if (!(factors[i] > 0 && factors[i] >= before)) {
      return note(error(ErrorCode::kCorrupt,
                        "{}: rope_freqs.weight: ascending numbers above 0 expected, found {} at {} "
                        "behind {}",
                        file_.path(), factors[i], i, before));
    }
    before = factors[i];
  }
}

Status WeightLoader::plan() {
  TRY(config, read_config(file_));
  weights_.config = std::move(config);
  weights_.layers.resize(weights_.config.n_layers);
  add_globals();
  for (uint32_t i = 0; i < weights_.config.n_layers; ++i) add_layer(i);
  if (failure_) return *failure_;
  return Ok{};
}

void WeightLoader::relocate(std::byte* base) {
  for (const std::byte** pointer : pointers_) *pointer = base + reinterpret_cast<size_t>(*pointer);
  for (std::span<const float>* span : spans_) {
    const size_t offset = reinterpret_cast<size_t>(span->data());
    *span = {reinterpret_cast<const float*>(base + offset), span->size()};
  }
}

void WeightLoader::progress(size_t bytes) {
  done_bytes_ += bytes;
  if (options_.on_progress) options_.on_progress(done_bytes_, source_bytes_);
}

void WeightLoader::pack(Exec& exec, std::byte* base, const PackJob& job) {
  const size_t bytes = row_bytes(job.type, job.cols);
  exec.parallel_for(job.n_rows, kPieceRows, [&](size_t begin, size_t end) {
    pack_rows(job.type, job.src + begin * bytes, begin, end - begin, job.cols, base + job.dst);
    release_mapped_pages({job.src + begin * bytes, (end - begin) * bytes});
  });
  progress(job.n_rows * bytes);
}

void WeightLoader::fuse(Exec& exec, std::byte* base, const FuseJob& job) {
  const size_t half = job.rows_each * row_bytes(job.type, job.cols);
  const size_t packed = packed_bytes(job.type, 2 * job.rows_each, job.cols);
  std::vector<std::vector<std::byte>> scratch(exec.n_threads(), std::vector<std::byte>(2 * half));
  exec.parallel_for(job.n_experts, 1, [&](size_t begin, size_t end, size_t thread) {
    for (size_t e = begin; e < end; ++e) {
      std::memcpy(scratch[thread].data(), job.gate + e * half, half);
      std::memcpy(scratch[thread].data() + half, job.up + e * half, half);
      pack_rows(job.type, scratch[thread].data(), 0, 2 * job.rows_each, job.cols,
                base + job.dst + e * packed);
    }
  });
  progress(2 * half * job.n_experts);
}

void WeightLoader::fill(Exec& exec, std::byte* base) {
  for (const FloatJob& job : floats_) {
    row_codec(type_of(*job.tensor))
        .decode(job.tensor->data.data(), job.tensor->n_elements(),
                reinterpret_cast<float*>(base + job.dst));
  }
  for (const PackJob& job : packs_) pack(exec, base, job);
  for (const FuseJob& job : fuses_) fuse(exec, base, job);
  for (const CopyJob& job : copies_) {
    std::memcpy(base + job.dst, job.src.data(), job.src.size());
    release_mapped_pages(job.src);
    progress(job.src.size());
  }
}

Result<Weights> WeightLoader::load(Exec& exec) {
  TRY(memory, HugeMemory::allocate(size_, "weights"));
  std::byte* base = memory.data();
  weights_.memory_ = std::move(memory);
  weights_.resident_bytes = size_;
  relocate(base);
  fill(exec, base);
  return std::move(weights_);
}

Result<uint64_t> plan_weights(const GgufFile& file, const LoadOptions& options) {
  WeightLoader loader(file, options);
  TRY_OK(loader.plan());
  return loader.bytes();
}

Result<Weights> load_weights(const GgufFile& file, const LoadOptions& options, Exec& exec) {
  WeightLoader loader(file, options);
  TRY_OK(loader.plan());
  return loader.load(exec);
}

}  // namespace hf2q
