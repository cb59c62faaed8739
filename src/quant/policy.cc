#include "quant/policy.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <utility>

namespace hf2q {
namespace {

enum class Role { kOutput, kEmbedding, kAttnV, kAttnK, kAttnOutput, kFfnDown, kOther };

// The first part that is found in the name decides.
constexpr std::pair<std::string_view, Role> kRoleByPart[] = {
    {"attn_qkv.weight", Role::kAttnV}, {"attn_kv_b.weight", Role::kAttnV},
    {"attn_v.weight", Role::kAttnV},   {"attn_k.weight", Role::kAttnK},
    {"attn_q.weight", Role::kOther},   {"attn_output.weight", Role::kAttnOutput},
    {"ffn_up", Role::kOther},          {"ffn_gate", Role::kOther},
    {"ffn_down", Role::kFfnDown},
};

constexpr std::string_view kCopiedParts[] = {
    "_norm.weight", "ffn_gate_inp.weight", "per_layer_model_proj", "altup",
    "laurel",       ".position_embd",      ".patch_embd",          ".rel_pos",
};

constexpr std::string_view kBlockPrefix = "blk.";

// For rows that are not a whole number of 256-element blocks.
constexpr std::pair<TensorType, TensorType> kStandIns[] = {
    {TensorType::kQ2_K, TensorType::kQ4_0}, {TensorType::kQ3_K, TensorType::kQ4_0},
    {TensorType::kQ4_K, TensorType::kQ5_0}, {TensorType::kQ5_K, TensorType::kQ5_1},
    {TensorType::kQ6_K, TensorType::kQ8_0},
};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

Role role_of(std::string_view name) {
  if (name == "output.weight") return Role::kOutput;
  if (name == "token_embd.weight" || name == "per_layer_token_embd.weight") {
    return Role::kEmbedding;
  }
  for (const auto& [part, role] : kRoleByPart) {
    if (contains(name, part)) return role;
  }
  return Role::kOther;
}

bool is_vector(const std::array<uint64_t, 4>& dims) {
  return dims[1] == 1 && dims[2] == 1 && dims[3] == 1;
}

bool is_copied(const PolicyTensor& tensor) {
  return is_vector(tensor.dims) || !tensor.name.ends_with("weight") ||
         std::ranges::any_of(kCopiedParts,
                             [&](std::string_view part) { return contains(tensor.name, part); });
}

// N of "blk.N.", or nothing.
std::optional<uint32_t> block_of(std::string_view name) {
  if (!name.starts_with(kBlockPrefix)) return std::nullopt;
  const char* end = name.data() + name.size();
  uint32_t block = 0;
  const auto [stop, failure] = std::from_chars(name.data() + kBlockPrefix.size(), end, block);
  if (failure != std::errc() || stop == end || *stop != '.') return std::nullopt;
  return block;
}

std::vector<size_t> output_order(std::span<const PolicyTensor> tensors) {
  std::vector<size_t> order(tensors.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  // An empty optional is less than every block number.
  std::ranges::stable_sort(
      order, {}, [&](size_t i) { return std::pair(block_of(tensors[i].name), tensors[i].name); });
  return order;
}

// Is layer i of n one of those that get more bits: the first and last eighth, every third between.
bool more_bits(uint64_t i, uint64_t n) {
  return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

// Rules 4 to 6 for one tensor after the other, in output order.
class Rules {
 public:
  Rules(std::span<const PolicyTensor> tensors, const PolicyOptions& options)
      : options_(options), base_(base_type(options.file_type)) {
    for (const PolicyTensor& tensor : tensors) {
      tied_ = tied_ && role_of(tensor.name) != Role::kOutput;
      n_attn_v_ += role_of(tensor.name) == Role::kAttnV ? 1 : 0;
    }
    many_queries_ = options.n_kv_heads > 0 && options.n_heads / options.n_kv_heads >= 4;
  }

  Result<TensorType> next(const PolicyTensor& tensor) {
    switch (role_of(tensor.name)) {
      case Role::kOutput:
        return head(tensor.dims[0]);
      case Role::kEmbedding:
        return tied_ ? head(tensor.dims[0]) : base_;
      case Role::kAttnV:
        return attn_v(i_attn_v_++);
      case Role::kAttnK:
        return eight_experts() ? TensorType::kQ8_0 : base_;
      case Role::kAttnOutput:
        return eight_experts() ? attn_output_of_eight_experts() : attn_output();
      case Role::kFfnDown: {
        TRY(layer, ffn_down_layer(tensor.name));
        return ffn_down(layer);
      }
      case Role::kOther:
        break;
    }
    return base_;
  }

 private:
  bool eight_experts() const { return options_.n_experts == 8; }

  TensorType head(uint64_t row) const {
    const bool fits = row % tensor_type_info(base_).block_elements == 0;
    return fits && base_ != TensorType::kQ8_0 ? TensorType::kQ6_K : TensorType::kQ8_0;
  }

  TensorType attn_v(uint64_t i) const {
    if (eight_experts()) return TensorType::kQ8_0;
    switch (options_.file_type) {
      case FileType::kQ2_K:
        return many_queries_ ? TensorType::kQ4_K : TensorType::kQ3_K;
      case FileType::kQ2_K_S:
        return many_queries_ ? TensorType::kQ4_K : base_;
      case FileType::kQ3_K_M:
        return i < 2 ? TensorType::kQ5_K : TensorType::kQ4_K;
      case FileType::kQ3_K_L:
        return TensorType::kQ5_K;
      case FileType::kQ4_K_S:
        return i < 4 ? TensorType::kQ5_K : base_;
      case FileType::kQ4_K_M:
      case FileType::kQ5_K_M:
        return more_bits(i, n_attn_v_) ? TensorType::kQ6_K : base_;
      case FileType::kIQ4_NL:
        return many_queries_ ? TensorType::kQ5_K : base_;
      default:
        return base_;
    }
  }

  TensorType attn_output() const {
    switch (options_.file_type) {
      case FileType::kQ2_K:
        return TensorType::kQ3_K;
      case FileType::kQ3_K_M:
        return TensorType::kQ4_K;
      case FileType::kQ3_K_L:
        return TensorType::kQ5_K;
      default:
        return base_;
    }
  }

  TensorType attn_output_of_eight_experts() const {
    switch (options_.file_type) {
      case FileType::kQ2_K:
      case FileType::kQ3_K_S:
      case FileType::kQ3_K_M:
      case FileType::kQ4_K_S:
      case FileType::kQ4_K_M:
      case FileType::kIQ4_NL:
        return TensorType::kQ5_K;
      default:
        return base_;
    }
  }

  Result<uint64_t> ffn_down_layer(std::string_view name) {
    const uint64_t n_decided = i_ffn_down_++;
    if (options_.n_experts <= 1) return n_decided;
    const std::optional<uint32_t> block = block_of(name);
    if (!block || *block >= options_.n_layers) {
      return error(ErrorCode::kCorrupt, "{}: a name \"blk.N.\" with N below {} expected", name,
                   options_.n_layers);
    }
    return uint64_t{*block};
  }

  TensorType ffn_down(uint64_t i) const {
    const uint64_t n = options_.n_layers;
    const bool in_first_eighth = i < n / 8;
    switch (options_.file_type) {
      case FileType::kQ2_K:
        return TensorType::kQ3_K;
      case FileType::kQ2_K_S:
        return in_first_eighth ? TensorType::kQ4_K : base_;
      case FileType::kQ3_K_M:
        return i < n / 16 ? TensorType::kQ5_K : TensorType::kQ4_K;
      case FileType::kQ3_K_L:
        return TensorType::kQ5_K;
      case FileType::kQ4_0:
        return in_first_eighth && options_.has_importance ? TensorType::kQ4_1 : base_;
      case FileType::kQ5_0:
        return in_first_eighth && options_.has_importance ? TensorType::kQ5_1 : base_;
      case FileType::kQ4_K_S:
        return in_first_eighth ? TensorType::kQ5_K : base_;
      case FileType::kQ4_K_M:
      case FileType::kQ5_K_M:
        return more_bits(i, n) ? TensorType::kQ6_K : base_;
      case FileType::kIQ4_NL:
        return in_first_eighth && !options_.has_importance ? TensorType::kQ5_K : base_;
      default:
        return base_;
    }
  }

  const PolicyOptions& options_;
  TensorType base_;
  bool tied_ = true;
  bool many_queries_ = false;  // at least 4 query heads share a KV head
  uint64_t n_attn_v_ = 0;
  uint64_t i_attn_v_ = 0;
  uint64_t i_ffn_down_ = 0;
};

Result<const TypeOverride*> first_match(std::span<const TypeOverride> overrides,
                                        std::string_view name) {
  for (const TypeOverride& override : overrides) {
    TRY(matches, override.matches(name));
    if (matches) return &override;
  }
  return nullptr;
}

Status check_override(const TypeOverride& override, std::span<const PolicyTensor> tensors,
                      FileType file_type) {
  if (!is_quantized(base_type(file_type))) {
    return error(ErrorCode::kInvalidArgument,
                 "--tensor-type \"{}\": has no effect on file type {}; a quantized one expected",
                 override.text(), name_of(file_type));
  }
  for (const PolicyTensor& tensor : tensors) {
    TRY(matches, override.matches(tensor.name));
    if (matches && !is_copied(tensor)) return Ok{};
  }
  return error(ErrorCode::kInvalidArgument,
               "--tensor-type \"{}\": no tensor that can be quantized has such a name",
               override.text());
}

// per_layer_model_proj.weight is not here: it is copied.
bool is_per_layer_embedding(std::string_view name) {
  return name == "per_layer_token_embd.weight" ||
         (block_of(name) && (name.ends_with(".inp_gate.weight") || name.ends_with(".proj.weight")));
}

// Raises a choice of the rules to Q8_0 where the safe recipe asks for it.
void keep_eight_bits(TypeChoice& choice, const PolicyTensor& tensor) {
  const TensorType fitted = type_that_fits(choice.wanted, tensor.dims[0]);
  if (!is_quantized(fitted) || fitted == TensorType::kQ8_0) return;
  if (!is_per_layer_embedding(tensor.name)) return;
  choice.wanted = TensorType::kQ8_0;
  choice.reason = TypeReason::kSafe;
}

// The choice before the safe recipe and before the row length is looked at.
Result<TypeChoice> first_choice(const PolicyTensor& tensor, const PolicyOptions& options,
                                Rules& rules) {
  TypeChoice choice{};
  const TensorType base = base_type(options.file_type);
  if (is_copied(tensor)) {
    choice.wanted = tensor.source;
    choice.reason = TypeReason::kCopied;
    return choice;
  }
  choice.reason = TypeReason::kPolicy;
  choice.wanted = base;
  if (!is_quantized(base)) return choice;

  TRY(override, first_match(options.overrides, tensor.name));
  if (override != nullptr) {
    choice.wanted = override->type();
    choice.reason = TypeReason::kOverride;
    return choice;
  }
  TRY(wanted, rules.next(tensor));
  choice.wanted = wanted;
  return choice;
}

bool needs_importance(const PolicyTensor& tensor, const TypeChoice& choice, FileType file_type) {
  const Role role = role_of(tensor.name);
  return file_type == FileType::kQ2_K_S && choice.type == TensorType::kQ2_K &&
         choice.reason != TypeReason::kCopied && role != Role::kEmbedding && role != Role::kOutput;
}

}  // namespace

Result<Recipe> parse_recipe(std::string_view name) {
  if (name == "plain") return Recipe::kPlain;
  if (name == "safe") return Recipe::kSafe;
  return error(ErrorCode::kInvalidArgument, "recipe \"{}\": plain or safe expected", name);
}

Result<std::vector<TypeChoice>> plan_types(std::span<const PolicyTensor> tensors,
                                           const PolicyOptions& options) {
  for (const TypeOverride& override : options.overrides) {
    TRY_OK(check_override(override, tensors, options.file_type));
  }
  Rules rules(tensors, options);
  std::vector<TypeChoice> plan;
  plan.reserve(tensors.size());
  for (const size_t index : output_order(tensors)) {
    const PolicyTensor& tensor = tensors[index];
    TRY(choice, first_choice(tensor, options, rules));
    if (options.recipe == Recipe::kSafe && choice.reason == TypeReason::kPolicy) {
      keep_eight_bits(choice, tensor);
    }
    choice.index = index;
    choice.type = choice.reason == TypeReason::kCopied
                      ? choice.wanted
                      : type_that_fits(choice.wanted, tensor.dims[0]);
    choice.needs_importance = needs_importance(tensor, choice, options.file_type);
    if (choice.needs_importance && !options.has_importance) {
      return error(ErrorCode::kInvalidArgument,
                   "{}: file type {} needs an importance matrix (--imatrix)", tensor.name,
                   name_of(options.file_type));
    }
    plan.push_back(choice);
  }
  return plan;
}

std::string note_of(const TypeChoice& choice, const PolicyTensor& tensor) {
  std::string note;
  if (choice.reason == TypeReason::kOverride) note = "--tensor-type";
  if (choice.reason == TypeReason::kSafe) note = "safe recipe";
  if (choice.type != choice.wanted) {
    note += fmt::format("{}row of {}: no whole blocks of {}", note.empty() ? "" : ", ",
                        tensor.dims[0], name_of(choice.wanted));
  }
  return note;
}

TensorType type_that_fits(TensorType wanted, uint64_t row_elements) {
  const auto fits = [&](TensorType type) {
    return row_elements % tensor_type_info(type).block_elements == 0;
  };
  if (fits(wanted)) return wanted;
  for (const auto& [type, stand_in] : kStandIns) {
    if (type == wanted && fits(stand_in)) return stand_in;
  }
  return TensorType::kF16;
}

TensorType checkpoint_type(std::string_view name, const std::array<uint64_t, 4>& dims,
                           TensorType stored, FileType file_type) {
  if (is_vector(dims) || !name.ends_with(".weight") || name.ends_with("_norm.weight") ||
      name.ends_with("ffn_gate_inp.weight")) {
    return TensorType::kF32;
  }
  const TensorType base = base_type(file_type);
  return is_quantized(base) ? stored : base;
}

}  // namespace hf2q
