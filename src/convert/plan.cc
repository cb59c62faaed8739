#include "convert/plan.h"

#include <algorithm>

#include "convert/checkpoint_map.h"
#include "convert/hf_metadata.h"
#include "convert/imatrix_file.h"
#include "convert/readable.h"
#include "model/config.h"
#include "model/ignored_tensors.h"
#include "model/weights.h"
#include "sample/file_sampling.h"
#include "tokenizer/gguf_vocabulary.h"

namespace hf2q {
namespace {

// Types that hold at least 8 bits per weight: encoding them again loses nothing that shows.
bool wide(TensorType type) {
  const TensorTypeInfo& info = tensor_type_info(type);
  return info.block_bytes * 8 >= info.block_elements * 8;
}

std::array<uint64_t, 4> dims_of(const OutputTensor& tensor) {
  std::array<uint64_t, 4> dims = {1, 1, 1, 1};
  std::copy_n(tensor.dims.begin(), std::min<size_t>(tensor.dims.size(), 4), dims.begin());
  return dims;
}

// Gives each tensor its type and puts them in the order of the file.
Status choose_types(OutputPlan& plan, const PolicyOptions& policy, bool from_checkpoint) {
  std::vector<PolicyTensor> inputs;
  for (const OutputTensor& tensor : plan.tensors) {
    const std::array<uint64_t, 4> dims = dims_of(tensor);
    const TensorType stored = tensor.source_type();
    const TensorType source =
        from_checkpoint ? checkpoint_type(tensor.name, dims, stored, policy.file_type) : stored;
    inputs.push_back({tensor.name, dims, source});
  }
  TRY(choices, plan_types(inputs, policy));
  std::vector<OutputTensor> ordered;
  for (const TypeChoice& choice : choices) {
    OutputTensor& tensor = plan.tensors[choice.index];
    tensor.type = choice.type;
    tensor.needs_importance = choice.needs_importance;
    tensor.note = note_of(choice, inputs[choice.index]);
    ordered.push_back(std::move(tensor));
  }
  plan.tensors = std::move(ordered);
  return Ok{};
}

Status apply_importance(OutputPlan& plan, const Imatrix& imatrix, const std::string& path) {
  size_t n_found = 0;
  size_t n_quantized = 0;
  for (OutputTensor& tensor : plan.tensors) {
    if (!is_quantized(tensor.type)) continue;
    ++n_quantized;
    const std::array<uint64_t, 4> dims = dims_of(tensor);
    TRY(importance, importance_for(imatrix, tensor.name, dims[0], dims[2]));
    tensor.importance = std::move(importance);
    if (!tensor.importance.empty()) ++n_found;
    if (tensor.needs_importance && tensor.importance.empty()) {
      return error(ErrorCode::kCorrupt,
                   "{}: an entry in the importance matrix expected, as for every {} tensor",
                   tensor.name, name_of(tensor.type));
    }
  }
  if (n_quantized > 0 && n_found == 0) {
    return error(ErrorCode::kCorrupt,
                 "{}: entries for this model's tensors expected, found none of their names", path);
  }
  return Ok{};
}

// The keys that the reference quantizer leaves behind.
void set_imatrix_keys(const Imatrix& imatrix, const std::string& path, GgufMetadata& metadata) {
  metadata.set_string("quantize.imatrix.file", path.substr(path.rfind('/') + 1));
  if (!imatrix.datasets.empty()) {
    metadata.set_string("quantize.imatrix.dataset", imatrix.datasets.front());
  }
  metadata.set_u32("quantize.imatrix.entries_count", static_cast<uint32_t>(imatrix.entries.size()));
  if (imatrix.chunk_count > 0) {
    metadata.set_u32("quantize.imatrix.chunks_count", imatrix.chunk_count);
  }
}

PolicyOptions policy_options(const Config& config, const QuantizeOptions& options) {
  PolicyOptions policy;
  policy.file_type = options.file_type;
  policy.recipe = options.recipe;
  policy.overrides = options.overrides;
  policy.has_importance = !options.imatrix_path.empty();
  policy.n_layers = config.n_layers;
  policy.n_heads = config.n_heads;
  policy.n_kv_heads = config.layers.front().n_kv_heads;
  policy.n_experts = config.n_experts;
  return policy;
}

Status finish(OutputPlan& plan, const Config& config, const QuantizeOptions& options,
              bool from_checkpoint) {
  TRY_OK(choose_types(plan, policy_options(config, options), from_checkpoint));
  plan.file_type = options.file_type;
  plan.metadata.set_u32("general.quantization_version", 2);
  plan.metadata.set_u32("general.file_type", static_cast<uint32_t>(options.file_type));
  if (options.imatrix_path.empty()) return Ok{};
  plan.inputs.push_back(options.imatrix_path);
  TRY(imatrix, read_imatrix(options.imatrix_path));
  TRY_OK(apply_importance(plan, imatrix, options.imatrix_path));
  set_imatrix_keys(imatrix, options.imatrix_path, plan.metadata);
  return Ok{};
}

Status check_requantize(const OutputPlan& plan, const std::string& path) {
  for (const OutputTensor& tensor : plan.tensors) {
    if (tensor.type != tensor.source_type() && !wide(tensor.source_type())) {
      return error(ErrorCode::kUnsupported,
                   "{}: {}: at least 8 bits per weight expected as a source, found {} "
                   "(--allow-requantize does it all the same, at a loss)",
                   path, tensor.name, name_of(tensor.source_type()));
    }
  }
  return Ok{};
}

// What the commands that load a file would refuse is not copied either. A file may come without a
// tokenizer.
Status check_metadata(const GgufFile& file) {
  TRY(sampling, read_sampling(file));
  (void)sampling;
  if (file.find("tokenizer.ggml.model") == nullptr) return Ok{};
  TRY(vocabulary, read_gguf_vocabulary(file));
  TRY_OK(check_vocabulary(vocabulary, file.path()));
  return check_chat_template(vocabulary.chat_template, file.path() + ": tokenizer.chat_template");
}

}  // namespace

uint64_t OutputPlan::n_elements() const {
  uint64_t n = 0;
  for (const OutputTensor& tensor : tensors) n += tensor.n_elements();
  return n;
}

uint64_t OutputPlan::data_bytes() const {
  return gguf_data_bytes(tensor_infos(tensors));
}

uint64_t OutputPlan::source_bytes() const {
  return checkpoint ? checkpoint->data_bytes() : file->file_bytes();
}

Result<OutputPlan> plan_conversion(const std::string& folder, const QuantizeOptions& options) {
  OutputPlan plan;
  TRY(source, read_hf_metadata(folder));
  TRY(checkpoint, Checkpoint::open(folder));
  plan.checkpoint = std::make_unique<Checkpoint>(std::move(checkpoint));
  TRY(map, map_checkpoint(*plan.checkpoint, source.config, source.vocabulary.tokens.size()));
  plan.tensors = std::move(map.tensors);
  plan.skipped = std::move(map.skipped);
  for (const SafetensorsFile& file : plan.checkpoint->files()) {
    if (file.file() != nullptr) plan.inputs.push_back(file.file()->path());
  }
  for (const char* name :
       {"config.json", "tokenizer.json", "generation_config.json", "tokenizer_config.json",
        "chat_template.jinja", "model.safetensors.index.json"}) {
    plan.inputs.push_back(folder + "/" + name);
  }
  plan.name = source.name;
  write_metadata(source, plan.metadata);
  TRY_OK(finish(plan, source.config, options, /*from_checkpoint=*/true));
  return plan;
}

Result<OutputPlan> plan_quantization(const std::string& path, const QuantizeOptions& options) {
  OutputPlan plan;
  TRY(file, GgufFile::open(path));
  plan.file = std::make_unique<GgufFile>(std::move(file));
  TRY(config, read_config(*plan.file));
  // What cannot be loaded is not worth quantizing: every name and shape is checked.
  TRY(ignored_bytes, plan_weights(*plan.file, {}));
  (void)ignored_bytes;
  plan.inputs = plan.file->shard_paths();
  TRY_OK(check_metadata(*plan.file));
  const std::vector<std::string> ignored = ignored_tensors(*plan.file, config);
  if (!ignored.empty()) plan.warnings.push_back(ignored_line(ignored));
  for (const GgufTensor& tensor : plan.file->tensors()) {
    if (std::ranges::find(ignored, tensor.name) != ignored.end()) continue;
    if (!tensor.type->supported) {
      return error(ErrorCode::kUnsupported, "{}: {}: type {} cannot be read", path, tensor.name,
                   tensor.type->name);
    }
    OutputTensor& output = plan.tensors.emplace_back();
    output.name = tensor.name;
    output.dims.assign(tensor.dims.begin(), tensor.dims.begin() + tensor.n_dims);
    output.segments = {{static_cast<TensorType>(tensor.type->id), tensor.data, true, path,
                        std::string(tensor.name)}};
  }
  for (const auto& [key, value] : plan.file->metadata()) {
    const bool own = key == "general.file_type" || key == "general.quantization_version";
    if (!own && !key.starts_with("split.")) plan.metadata.set(key, value);
  }
  const Value* name = plan.file->find("general.name");
  if (name != nullptr) plan.name = name->as_string().value_or("");
  TRY_OK(finish(plan, config, options, /*from_checkpoint=*/false));
  if (!options.allow_requantize) TRY_OK(check_requantize(plan, path));
  return plan;
}

Status write(const OutputPlan& plan, const std::string& path, const WriteOptions& options) {
  return write_gguf(path, plan.metadata, plan.tensors, options);
}

}  // namespace hf2q
