#include "gguf/name_index.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <tuple>

namespace hf2q {

void NameIndex::reserve(size_t count) {
  names_.reserve(count);
  entries_.reserve(count);
}

void NameIndex::add(std::string_view name) {
  entries_.push_back({std::hash<std::string_view>()(name), names_.size()});
  names_.push_back(name);
}

std::optional<std::pair<size_t, size_t>> NameIndex::sort() {
  std::sort(entries_.begin(), entries_.end(), [this](const Entry& a, const Entry& b) {
    if (a.hash != b.hash) return a.hash < b.hash;
    return std::tie(names_[a.position], a.position) < std::tie(names_[b.position], b.position);
  });
  const auto equal = [this](const Entry& a, const Entry& b) {
    return a.hash == b.hash && names_[a.position] == names_[b.position];
  };
  const auto twin = std::adjacent_find(entries_.begin(), entries_.end(), equal);
  if (twin == entries_.end()) return std::nullopt;
  return std::pair(twin->position, std::next(twin)->position);
}

std::optional<size_t> NameIndex::find(std::string_view name) const {
  const size_t hash = std::hash<std::string_view>()(name);
  const auto found = std::lower_bound(
      entries_.begin(), entries_.end(), name, [&](const Entry& entry, std::string_view wanted) {
        return entry.hash != hash ? entry.hash < hash : names_[entry.position] < wanted;
      });
  if (found == entries_.end() || names_[found->position] != name) return std::nullopt;
  return found->position;
}

}  // namespace hf2q
