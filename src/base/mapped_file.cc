#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace hf2q {
namespace {

Error cannot_read(const std::string& path, const char* what) {
  return error(ErrorCode::kNotFound, "{}: cannot {}: {}", path, what, std::strerror(errno));
}

// The whole pages inside `range`.
std::pair<void*, size_t> inner_pages(std::span<const std::byte> range) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(range.data());
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t last = (begin + range.size()) / page * page;
  return {reinterpret_cast<void*>(first), last > first ? last - first : 0};  // NOLINT
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return cannot_read(path, "open");
  struct stat info = {};
  if (fstat(fd, &info) != 0) {
    Error failure = cannot_read(path, "stat");
    ::close(fd);
    return failure;
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(fd);
    return error(ErrorCode::kCorrupt, "{}: a regular file expected", path);
  }
  MappedFile file;
  file.path_ = path;
  const auto size = static_cast<size_t>(info.st_size);
  if (size > 0) {
    void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (address == MAP_FAILED) {
      Error failure = cannot_read(path, "map");
      ::close(fd);
      return failure;
    }
    file.bytes_ = {static_cast<const std::byte*>(address), size};
  }
  ::close(fd);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(path_, other.path_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::will_need(std::span<const std::byte> range) const {
  const auto [begin, size] = inner_pages(range);
  if (size > 0) madvise(begin, size, MADV_WILLNEED);
}

void release_mapped_pages(std::span<const std::byte> range) {
  const auto [begin, size] = inner_pages(range);
  if (size > 0) madvise(begin, size, MADV_DONTNEED);
}

}  // namespace hf2q
