#include "model/ignored_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "base/quote.h"

namespace hf2q {
namespace {

constexpr std::array<std::string_view, 7> kGlobal = {
    "token_embd.weight",           "output.weight",
    "output_norm.weight",          "rope_freqs.weight",
    "per_layer_token_embd.weight", "per_layer_model_proj.weight",
    "per_layer_proj_norm.weight",
};
// Behind "blk.N.".
constexpr std::array<std::string_view, 28> kOfLayer = {
    "attn_norm.weight",       "attn_qkv.weight",         "attn_q.weight",
    "attn_k.weight",          "attn_v.weight",           "attn_q_norm.weight",
    "attn_k_norm.weight",     "attn_output.weight",      "post_attention_norm.weight",
    "ffn_norm.weight",        "ffn_gate.weight",         "ffn_up.weight",
    "ffn_down.weight",        "post_ffw_norm.weight",    "layer_output_scale.weight",
    "ffn_gate_inp.weight",    "ffn_gate_inp.scale",      "ffn_gate_exps.weight",
    "ffn_up_exps.weight",     "ffn_gate_up_exps.weight", "ffn_down_exps.weight",
    "ffn_down_exps.scale",    "pre_ffw_norm_2.weight",   "post_ffw_norm_1.weight",
    "post_ffw_norm_2.weight", "inp_gate.weight",         "proj.weight",
    "post_norm.weight",
};

bool is_known(std::string_view name, uint32_t n_layers) {
  constexpr std::string_view kLayer = "blk.";
  if (!name.starts_with(kLayer)) return std::ranges::find(kGlobal, name) != kGlobal.end();
  uint32_t layer = 0;
  const char* const last = name.data() + name.size();
  const auto [end, failure] = std::from_chars(name.data() + kLayer.size(), last, layer);
  if (failure != std::errc() || layer >= n_layers || end == last || *end != '.') return false;
  return std::ranges::find(kOfLayer, std::string_view(end + 1, last)) != kOfLayer.end();
}

}  // namespace

std::vector<std::string> ignored_tensors(const GgufFile& file, const Config& config) {
  std::vector<std::string> names;
  for (const GgufTensor& tensor : file.tensors()) {
    if (!is_known(tensor.name, config.n_layers)) names.emplace_back(tensor.name);
  }
  return names;
}

std::string ignored_line(const std::vector<std::string>& names) {
  constexpr size_t kShown = 10;
  std::string line = "ignored: " + quote(names.front());
  for (size_t i = 1; i < std::min(names.size(), kShown); ++i) line += ", " + quote(names[i]);
  if (names.size() > kShown) line += fmt::format(" and {} more", names.size() - kShown);
  return line;
}

}  // namespace hf2q
