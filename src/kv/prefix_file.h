#pragma once
// One path of a prefix tree in a file: tokens, and the rows that resume points on them need. Rows
// depend on the model, the formats and the tokens alone, so that a later run goes on with the same
// bits.
//
// Numbers are little-endian; digests are XXH3 of 128 bits.
//
//   header, 64 bytes
//     magic "HF2Q-KV\n" | u32 version 1 | u32 revision of the formats 1 | u64 bytes of the file |
//     u64 bytes of the description | digest of the description | digest of the 48 bytes before
//   description
//     digest of the model | u32 page positions T | u32 n_groups | u32 n_tokens | u32 n_soft |
//     u32 n_points | u32 n_pages | u64 n_extra
//     n_groups x  u32 window | u32 layers | u32 KV heads | u32 head size | K format, V format:
//                 8 bytes each, zeros behind the name
//     n_tokens x  u32 id (0 at soft rows)
//     n_soft   x  u32 position | u32 rows | u32 1: they see each other, else 0 | u32 0 | digest
//     n_points x  u32 position
//     n_pages  x  u32 group | u32 index | u64 XXH3 of the page's rows
//     n_extra bytes that mean something to the writer
//   pages, each as pack_page() makes it, one behind the other
//
// The revision changes with what a format's codes mean (tables, signs, norms), as names do not.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "kv/plan.h"
#include "kv/prefix_path.h"
#include "kv/prefix_tree.h"

namespace hf2q {

class PrefixFile {
 public:
  // Checks header and description: kNotFound as MappedFile::open; kCorrupt, naming the place, for
  // every file that is not as it was written; kUnsupported for another version.
  static Result<PrefixFile> open(const std::string& path);
  // The same of bytes that outlive the result. `name` stands for the path in errors.
  static Result<PrefixFile> parse(std::span<const std::byte> bytes, const std::string& name);
  // Whether `path` is such a file, as it seems, or the beginning of one, if perhaps damaged: what
  // may be written over without harm to anything else.
  static bool is_likely(const std::string& path);

  const PrefixPath& path() const { return path_; }
  std::string_view extra() const { return extra_; }

  // Gives the tree its path. kUnsupported when the rows are another model's or of other groups or
  // formats, kCorrupt for a page that is not as it was written, and as PrefixTree::restore; the
  // tree is as it was then, but that it knows what was read in another format.
  Status restore(const Digest& model, PrefixTree& tree, std::string_view name_space) const;

 private:
  Status parse_description(std::span<const std::byte> bytes);
  Status check_owner(const Digest& model, const Pool& pool) const;
  Status check_pages(const Pool& pool, std::vector<std::span<const std::byte>>& pages) const;

  std::optional<MappedFile> file_;
  std::string name_;
  Digest model_ = {};
  uint32_t page_positions_ = 0;
  std::span<const std::byte> groups_;  // as in the file
  PrefixPath path_;
  std::vector<uint64_t> checksums_;  // [path_.pages]
  std::string_view extra_;
  std::span<const std::byte> rows_;
};

// Writes the path, which is `tree`'s, in one piece: a file that was there is replaced when the new
// one is complete. Errors as OutputFile.
Status write_prefix_file(const std::string& path, const PrefixTree& tree, const PrefixPath& prefix,
                         const Digest& model, std::string_view extra);

}  // namespace hf2q
