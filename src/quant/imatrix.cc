#include "quant/imatrix.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/check.h"
#include "base/checked.h"

namespace hf2q {
namespace {

bool is_embedding(std::string_view weight) {
  return weight == "token_embd.weight" || weight == "per_layer_token_embd.weight";
}

std::vector<float> means(const ImatrixEntry& entry) {
  const size_t columns = entry.sums.size() / entry.counts.size();
  std::vector<float> importance(entry.sums.size(), 1.0F);
  for (size_t m = 0; m < entry.counts.size(); ++m) {
    if (entry.counts[m] <= 0) continue;
    const auto count = static_cast<float>(entry.counts[m]);
    for (size_t i = m * columns; i < (m + 1) * columns; ++i) importance[i] = entry.sums[i] / count;
  }
  return importance;
}

Status add_entry(std::string_view weight, ImatrixEntry& into, const ImatrixEntry& from) {
  if (into.sums.size() != from.sums.size() || into.counts.size() != from.counts.size()) {
    return error(ErrorCode::kCorrupt,
                 "importance of {}: {} sums and {} counts expected as in the file before, found {} "
                 "and {}",
                 weight, into.sums.size(), into.counts.size(), from.sums.size(),
                 from.counts.size());
  }
  for (size_t i = 0; i < into.sums.size(); ++i) into.sums[i] += from.sums[i];
  for (size_t m = 0; m < into.counts.size(); ++m) into.counts[m] += from.counts[m];
  return Ok{};
}

uint32_t saturating_sum(uint32_t a, uint32_t b) {
  return a + std::min(b, std::numeric_limits<uint32_t>::max() - a);
}

}  // namespace

Result<std::vector<float>> importance_for(const Imatrix& imatrix, std::string_view weight,
                                          uint64_t ne0, uint64_t ne2) {
  const auto found = imatrix.entries.find(weight);
  if (found == imatrix.entries.end()) return std::vector<float>();
  const ImatrixEntry& entry = found->second;
  CHECK(!entry.counts.empty() && entry.sums.size() % entry.counts.size() == 0);
  if (checked_mul(ne0, ne2) != entry.sums.size()) {
    if (is_embedding(weight)) return std::vector<float>();
    return error(ErrorCode::kCorrupt,
                 "importance of {}: {} x {} values expected, found {}; it is of another model",
                 weight, ne2, ne0, entry.sums.size());
  }
  std::vector<float> importance = means(entry);
  if (!std::ranges::all_of(importance, [](float value) { return std::isfinite(value); })) {
    return error(ErrorCode::kCorrupt, "importance of {}: finite values expected", weight);
  }
  return importance;
}

Status merge_into(Imatrix& into, const Imatrix& from) {
  for (const auto& [weight, entry] : from.entries) {
    const auto [place, is_new] = into.entries.try_emplace(weight, entry);
    if (!is_new) TRY_OK(add_entry(weight, place->second, entry));
  }
  for (const std::string& dataset : from.datasets) {
    if (std::ranges::find(into.datasets, dataset) == into.datasets.end()) {
      into.datasets.push_back(dataset);
    }
  }
  into.chunk_count = saturating_sum(into.chunk_count, from.chunk_count);
  into.chunk_size = std::max(into.chunk_size, from.chunk_size);
  return Ok{};
}

}  // namespace hf2q
