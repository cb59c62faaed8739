#pragma once
// Finds names in a list, and the duplicates among them.
// Sorted hashes rather than a hash table: a hostile file can choose names whose hashes collide, and
// sorting still takes n log n steps.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace hf2q {

class NameIndex {
 public:
  void reserve(size_t count);
  // The name at the next position of the list, counted from 0. `name` is a view and must stay.
  void add(std::string_view name);
  // To be called once all names are in, before find(). Returns the positions of two equal names,
  // the lower one first, or nothing when all differ.
  std::optional<std::pair<size_t, size_t>> sort();
  std::optional<size_t> find(std::string_view name) const;

 private:
  struct Entry {
    size_t hash;
    size_t position;  // in names_
  };
  std::vector<std::string_view> names_;
  std::vector<Entry> entries_;  // by hash, then name, then position
};

}  // namespace hf2q
