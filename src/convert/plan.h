#pragma once
// What a conversion or a re-quantization is going to write, decided before the first byte.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "convert/output_tensor.h"
#include "convert/pipeline.h"
#include "gguf/reader.h"
#include "gguf/writer.h"
#include "quant/file_type.h"
#include "quant/policy.h"
#include "safetensors/safetensors.h"

namespace hf2q {

struct QuantizeOptions {
  FileType file_type = FileType::kQ4_K_M;
  Recipe recipe = Recipe::kSafe;
  std::vector<TypeOverride> overrides;
  std::string imatrix_path;       // empty: none
  bool allow_requantize = false;  // also from types below 8 bits per weight
};

struct OutputPlan {
  GgufMetadata metadata;
  std::vector<OutputTensor> tensors;  // in the order of the file
  std::vector<std::string> skipped;   // source tensors that are left out, by name
  std::vector<std::string> inputs;    // paths of every file that is read
  std::vector<std::string> warnings;
  std::string name;  // of the model
  FileType file_type = FileType::kQ4_K_M;
  // Where the rows come from; one of the two.
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<GgufFile> file;

  uint64_t n_elements() const;
  uint64_t data_bytes() const;  // of the tensors in the file, with padding
  uint64_t source_bytes() const;
};

// A HuggingFace Gemma 4 checkpoint: the folder with config.json, tokenizer.json and safetensors;
// generation_config.json, chat_template.jinja and tokenizer_config.json where they exist. Errors as
// parse_hf_config, Checkpoint::open, map_checkpoint and read_tokenizer_json.
Result<OutputPlan> plan_conversion(const std::string& folder, const QuantizeOptions& options);

// A GGUF file, whose metadata is kept but for the file type and the shard keys. Tensors
// that are no part of the model are left out, with a warning (ignored_tensors). A tensor stored in
// fewer than 8 bits per weight that would get another type is kUnsupported unless allow_requantize.
Result<OutputPlan> plan_quantization(const std::string& path, const QuantizeOptions& options);

// write_gguf for a plan.
Status write(const OutputPlan& plan, const std::string& path, const WriteOptions& options);

}  // namespace hf2q
