#include "gguf/name_index.h"

#include <algorithm>
#include <functional>
#include <tuple>

namespace hf2q {

bool NameIndex::before(const Entry& a, const Entry& b) {
  return std::tie(a.hash, a.name, a.position) < std::tie(b.hash, b.name, b.position);
}

void NameIndex::add(std::string_view name) {
  entries_.push_back({std::hash<std::string_view>()(name), name, entries_.size()});
}

std::optional<std::pair<size_t, size_t>> NameIndex::sort() {
  std::sort(entries_.begin(), entries_.end(), before);
  const auto twin = std::adjacent_find(
      entries_.begin(), entries_.end(),
      [](const Entry& a, const Entry& b) { return a.hash == b.hash && a.name == b.name; });
  if (twin == entries_.end()) return std::nullopt;
  return std::pair(twin->position, std::next(twin)->position);
}

std::optional<size_t> NameIndex::find(std::string_view name) const {
  const Entry wanted = {std::hash<std::string_view>()(name), name, 0};
  const auto found = std::lower_bound(entries_.begin(), entries_.end(), wanted, before);
  if (found == entries_.end() || found->hash != wanted.hash || found->name != name) {
    return std::nullopt;
  }
  return found->position;
}

}  // namespace hf2q
