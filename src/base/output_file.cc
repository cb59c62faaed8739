#include "base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace hf2q {
namespace {

// Temporary files that a signal handler would have to delete: heap strings published by pointer, so
// that the handler reads them without a lock.
constexpr size_t kMaxUnfinished = 16;
std::array<std::atomic<char*>, kMaxUnfinished> unfinished = {};

void remember(const std::string& temporary) {
  char* copy = strdup(temporary.c_str());
  for (auto& slot : unfinished) {
    char* empty = nullptr;
    if (slot.compare_exchange_strong(empty, copy)) return;
  }
  free(copy);  // more open files than slots: only the interrupt clean-up misses this one
}

void forget(const std::string& temporary) {
  for (auto& slot : unfinished) {
    char* name = slot.load();
    if (name != nullptr && temporary == name && slot.compare_exchange_strong(name, nullptr)) {
      free(name);
      return;
    }
  }
}

Error cannot_write(const std::string& path, const char* what) {
  return error(ErrorCode::kIo, "{}: cannot {}: {}", path, what, std::strerror(errno));
}

}  // namespace

void remove_unfinished_files() {
  for (auto& slot : unfinished) {
    const char* name = slot.load();
    if (name != nullptr) unlink(name);
  }
}

Result<OutputFile> OutputFile::create(const std::string& name) {
  OutputFile file;
  // A link is followed: the file that it names is the one to replace.
  char resolved[PATH_MAX] = {};
  const std::string path = realpath(name.c_str(), resolved) != nullptr ? resolved : name;
  struct stat info = {};
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return error(ErrorCode::kIo, "{}: cannot write: not a regular file", name);
  }
  file.path_ = path;
  file.temporary_ = path + ".tmp." + std::to_string(getpid());
  remember(file.temporary_);  // before it is there: a signal may come at once
  file.fd_ = ::open(file.temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file.fd_ < 0) {
    Error failure = cannot_write(path, "create");
    forget(std::exchange(file.temporary_, {}));
    return failure;
  }
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})) {}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (temporary_.empty()) return;
  unlink(temporary_.c_str());
  forget(temporary_);
}

Status OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return cannot_write(path_, "write");
    bytes = bytes.subspan(static_cast<size_t>(written));
    size_ += static_cast<uint64_t>(written);
  }
  return Ok{};
}

Status OutputFile::write_zeros(uint64_t count) {
  static constexpr std::array<std::byte, 4096> kZeros = {};
  while (count > 0) {
    const size_t step = std::min<uint64_t>(count, kZeros.size());
    TRY_OK(write(std::span(kZeros).first(step)));
    count -= step;
  }
  return Ok{};
}

Status OutputFile::commit() {
  if (fsync(fd_) != 0) return cannot_write(path_, "flush");
  if (::close(std::exchange(fd_, -1)) != 0) return cannot_write(path_, "close");
  if (rename(temporary_.c_str(), path_.c_str()) != 0) return cannot_write(path_, "rename to");
  forget(temporary_);
  temporary_.clear();
  return Ok{};
}

}  // namespace hf2q
