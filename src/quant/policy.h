#pragma once
// Which tensor of a file gets which type.
//
// The rules of the reference quantizer, in this order; `base` is the file type's base type.
//
// 1. Copied with the type they have: tensors of one dimension, names that do not end in "weight",
//    and names with "_norm.weight", "ffn_gate_inp.weight", "per_layer_model_proj", "altup",
//    "laurel", ".position_embd", ".patch_embd" or ".rel_pos".
// 2. base F32, F16 or BF16: every other tensor gets it. Nothing below applies.
// 3. The first override that matches the name.
// 4. output.weight; in a file without one also token_embd.weight and per_layer_token_embd.weight:
//    Q8_0 if the row is not a whole number of base's blocks or base is Q8_0, else Q6_K.
// 5. By role and file type, base where nothing stands here:
//
//    file type   attn_v (attn_qkv)          attn_output   ffn_down
//    q2_k        gqa >= 4 ? Q4_K : Q3_K     Q3_K          Q3_K
//    q2_k_s      gqa >= 4: Q4_K                           i < L/8: Q4_K
//    q3_k_m      v < 2 ? Q5_K : Q4_K        Q4_K          i < L/16 ? Q5_K : Q4_K
//    q3_k_l      Q5_K                       Q5_K          Q5_K
//    q4_0 q5_0                                            importance and i < L/8: Q4_1, Q5_1
//    q4_k_s      v < 4: Q5_K                              i < L/8: Q5_K
//    q4_k_m      more(v, V): Q6_K                         more(i, L): Q6_K
//    q5_k_m      more(v, V): Q6_K                         more(i, L): Q6_K
//    iq4_nl      gqa >= 4: Q5_K                           no importance and i < L/8: Q5_K
//
//    gqa = heads / KV heads of layer 0; L layers; v counts the attn_v tensors decided so far, of V
//    in the file; i is the layer in the name when there are several experts, else the number of
//    ffn_down tensors decided so far; more(i, n) = i < n/8 or i >= 7n/8 or (i - n/8) % 3 == 2.
//    All divisions are of integers. Overridden tensors are not counted in v and i.
// 6. Exactly 8 experts: attn_v and attn_k get Q8_0; attn_output gets Q5_K for q2_k, q3_k_s, q3_k_m,
//    q4_k_s, q4_k_m and iq4_nl, and base for the others.
// 7. A row that is not a whole number of blocks: type_that_fits().
//
// The safe recipe adds: per_layer_token_embd and every block's inp_gate and proj (the per-layer
// embeddings and their projections) never go below Q8_0 by rules 4 to 7. Their common projection,
// per_layer_model_proj, is copied by rule 1. An override is obeyed.
//
// Source: the quantizer of llama.cpp, build b11118; rules for other architectures and for types
// without a codec here are left out.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor_type.h"
#include "quant/file_type.h"
#include "quant/policy_override.h"

namespace hf2q {

enum class Recipe {
  kPlain,  // the reference quantizer, tensor for tensor
  kSafe,   // and per-layer embeddings stay at 8 bits or more
};

// "plain" or "safe"; kInvalidArgument naming the value.
Result<Recipe> parse_recipe(std::string_view name);

struct PolicyOptions {
  FileType file_type = FileType::kQ4_K_M;
  Recipe recipe = Recipe::kSafe;
  std::vector<TypeOverride> overrides;  // the first that matches wins
  bool has_importance = false;          // an importance matrix is there, whatever it covers
  // The model.
  uint32_t n_layers = 0;
  uint32_t n_heads = 0;     // of layer 0
  uint32_t n_kv_heads = 0;  // of layer 0
  uint32_t n_experts = 0;   // 0 when dense
};

struct PolicyTensor {
  std::string_view name;                        // in the GGUF file
  std::array<uint64_t, 4> dims = {1, 1, 1, 1};  // fastest first: dims[0] is the row length
  TensorType source = TensorType::kF32;         // from a checkpoint: see checkpoint_type()
};

enum class TypeReason {
  kCopied,    // rule 1: `type` is the source's, the bytes stay
  kPolicy,    // rules 2 and 4 to 6
  kOverride,  // rule 3
  kSafe,      // raised by the safe recipe
};

struct TypeChoice {
  size_t index;       // into the tensors that were given
  TensorType type;    // what to write
  TensorType wanted;  // before rule 7; differs from `type` when the row does not fit
  TypeReason reason;
  bool needs_importance;  // Q2_K in a q2_k_s file: unusable without its importance entry
};

// A choice for every tensor, in the order of the output: by block number (names without "blk.N."
// first), then by name, bytewise. kInvalidArgument: an override that matches nothing that can be
// encoded, or overrides beside an unquantized file type, or q2_k_s without importance. kCorrupt: an
// ffn_down tensor without a block number below n_layers in a model with experts.
Result<std::vector<TypeChoice>> plan_types(std::span<const PolicyTensor> tensors,
                                           const PolicyOptions& options);

// For the report: "" when nothing is remarkable, else e.g. "row of 2112: no whole blocks of q6_k".
std::string note_of(const TypeChoice& choice, const PolicyTensor& tensor);

// `wanted` if a row of `row_elements` is a whole number of its blocks, else the 32-element type
// that stands in (Q2_K, Q3_K: Q4_0; Q4_K: Q5_0; Q5_K: Q5_1; Q6_K: Q8_0), else F16.
TensorType type_that_fits(TensorType wanted, uint64_t row_elements);

// The type that a checkpoint's tensor has before quantization (PolicyTensor::source): F32 for
// tensors of one dimension, norms, routers and names that do not end in ".weight"; the others get
// the base of an unquantized file type, else keep their `stored` type.
TensorType checkpoint_type(std::string_view name, const std::array<uint64_t, 4>& dims,
                           TensorType stored, FileType file_type);

}  // namespace hf2q
