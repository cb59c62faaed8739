#pragma once
// A file that appears under its name only when it is complete.
// Bytes go to a temporary file in the same directory; commit() flushes it and renames it. Destroyed
// without a commit, or when the process is interrupted (see remove_unfinished_files), nothing is
// left.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace hf2q {

class OutputFile {
 public:
  // Fails with kIo, naming the path and the system's reason; what exists there and is no regular
  // file (a folder, a device) is refused. A symbolic link is followed.
  static Result<OutputFile> create(const std::string& path);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  // Appends all of `bytes`; kIo on a short write (disk full).
  Status write(std::span<const std::byte> bytes);
  Status write_zeros(uint64_t count);
  uint64_t size() const { return size_; }
  // Renames over `path`; the file may not be written any more.
  Status commit();

 private:
  OutputFile() = default;
  int fd_ = -1;
  uint64_t size_ = 0;
  std::string path_;
  std::string temporary_;  // empty once renamed or moved from
};

// Deletes the temporary files of every open OutputFile. Safe to call from a signal handler.
void remove_unfinished_files();

}  // namespace hf2q
