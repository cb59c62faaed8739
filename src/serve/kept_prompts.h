#pragma once
// The prompts and answers of late, so that a server's next run finds their rows again: each is a
// file of one folder (kv/prefix_file.h). A file that is damaged, or another model's, is passed
// over; nothing outside of the folder is read or written, and files of other names are left alone.

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "kv/token_key.h"

namespace hf2q {

// A namespace as a file names it, so that keys do not lie on disk, and back; nothing for one that
// is not known any more.
struct NameSpaceLabels {
  std::function<std::string(std::string_view name_space)> label_of;
  std::function<std::optional<std::string>(std::string_view label)> name_space_of;
};

struct KeptReport {
  size_t n_prompts = 0;
  std::vector<std::string> warnings;  // one for each entry that was passed over
};

// Of the engine's thread.
class KeptPrompts {
 public:
  static constexpr size_t kMost = 256;  // older ones are forgotten

  // Resume points of a sequence that has ended: ascending, up to the number of keys. What it goes
  // on from need not be kept for itself.
  void remember(std::string name_space, std::vector<TokenKey> keys, std::vector<uint32_t> points);

  // The rows of the folder's files are the engine's then, as far as there is room. A folder that is
  // not there is empty.
  KeptReport load(Engine& engine, const std::string& folder, const NameSpaceLabels& labels);
  // Replaces the folder's files by what is remembered and still in the cache; only its owner may
  // read them.
  KeptReport save(Engine& engine, const std::string& folder, const NameSpaceLabels& labels) const;

 private:
  struct Kept {
    std::string name_space;
    std::vector<TokenKey> keys;
    std::vector<uint32_t> points;
  };
  Status load_file(Engine& engine, const std::string& path, const NameSpaceLabels& labels);

  std::deque<Kept> kept_;  // the latest last
};

}  // namespace hf2q
