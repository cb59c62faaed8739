#pragma once
// A read-only private mapping of a whole file.

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace hf2q {

// Gives the pages that lie wholly inside `range`, a part of some MappedFile's bytes, back to the
// kernel; they are read from the file again when touched.
void release_mapped_pages(std::span<const std::byte> range);

class MappedFile {
 public:
  // Fails with kNotFound, naming the path and the system's reason. A directory or a special file is
  // refused (kCorrupt). An empty file gives empty bytes.
  static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

  // Advice to the kernel for the pages that lie wholly inside `range` (a part of bytes()): read
  // ahead, or give them back (as release_mapped_pages).
  void will_need(std::span<const std::byte> range) const;
  void release(std::span<const std::byte> range) const { release_mapped_pages(range); }

 private:
  MappedFile() = default;
  std::span<const std::byte> bytes_;
  std::string path_;
};

}  // namespace hf2q
