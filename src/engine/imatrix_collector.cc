#include "engine/imatrix_collector.h"

#include <cmath>
#include <span>
#include <string_view>

#include "base/check.h"

namespace hf2q {
namespace {

constexpr std::string_view kOutput = "output";

// Which matrices of a layer meet the input that the forward pass calls `input`.
struct Readers {
  std::string_view input;
  std::array<std::string_view, 4> matrices;
};

constexpr Readers kReaders[] = {
    {"attn_qkv", {"attn_q", "attn_k", "attn_v", "attn_qkv"}},
    {"ffn_gate_up", {"ffn_gate", "ffn_up"}},
    {"ffn_gate_up_exps", {"ffn_gate_up_exps", "ffn_gate_exps", "ffn_up_exps"}},
};

// Names in a file of the matrices that meet an input; a file has some of them.
std::vector<std::string> weights_of(int layer, const std::string& input, const GgufFile& file) {
  if (layer < 0) {
    const bool tied = file.find_tensor("output.weight") == nullptr;
    return {tied ? "token_embd.weight" : "output.weight"};
  }
  std::vector<std::string> names;
  for (const Readers& readers : kReaders) {
    if (readers.input != input) continue;
    for (const std::string_view matrix : readers.matrices) {
      if (!matrix.empty()) names.push_back(fmt::format("blk.{}.{}.weight", layer, matrix));
    }
  }
  if (names.empty()) names.push_back(fmt::format("blk.{}.{}.weight", layer, input));
  return names;
}

Status check_finite(std::span<const double> sums, const std::string& weight) {
  for (const double sum : sums) {
    if (!std::isfinite(static_cast<float>(sum))) {
      return error(ErrorCode::kCorrupt, "importance of {}: finite sums expected, found {}", weight,
                   sum);
    }
  }
  return Ok{};
}

}  // namespace

void ImatrixCollector::add(const Point& point) {
  // The last norm's output is the head's input, also of rows whose logits nobody wants.
  const bool is_head = output_weight_ && point.name == "output_normed";
  const bool is_input = point.name == "matmul_input" && point.layer >= 0;
  if (!is_head && !is_input) return;
  Sums& sums = inputs_[{point.layer, std::string(is_head ? kOutput : point.weight)}];
  const size_t n_mat = point.expert < 0 ? 1 : n_experts_;
  if (sums.cols == 0) {
    sums.cols = point.cols;
    sums.sums.resize(n_mat * point.cols);
    sums.counts.resize(n_mat);
  }
  const auto matrix = static_cast<size_t>(point.expert < 0 ? 0 : point.expert);
  CHECK(sums.cols == point.cols && sums.counts.size() == n_mat && matrix < n_mat);
  double* total = sums.sums.data() + matrix * point.cols;
  for (size_t i = 0; i < point.n; ++i) {
    const float* x = point.data + (point.rows.empty() ? i : point.rows[i]) * point.cols;
    for (size_t c = 0; c < point.cols; ++c) total[c] += static_cast<double>(x[c]) * x[c];
  }
  sums.counts[matrix] += static_cast<int64_t>(point.n);
}

Result<Imatrix> ImatrixCollector::result(const GgufFile& file) const {
  Imatrix imatrix;
  for (const auto& [key, input] : inputs_) {
    for (const std::string& weight : weights_of(key.first, key.second, file)) {
      if (file.find_tensor(weight) == nullptr) continue;
      TRY_OK(check_finite(input.sums, weight));
      imatrix.entries[weight] = {{input.sums.begin(), input.sums.end()}, input.counts};
    }
  }
  return imatrix;
}

}  // namespace hf2q
