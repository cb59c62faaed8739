#include "kv/address_range.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace hf2q {

size_t AddressRange::granularity() {
  return static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

Result<AddressRange> AddressRange::reserve(size_t bytes) {
  AddressRange range;
  if (bytes == 0) return range;
  void* data = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return error(ErrorCode::kOutOfMemory, "cache: cannot reserve {} bytes of addresses: {}", bytes,
                 std::strerror(errno));
  }
  madvise(data, bytes, MADV_HUGEPAGE);  // a wish: a system without huge pages serves small ones
  range.data_ = static_cast<std::byte*>(data);
  range.size_ = bytes;
  return range;
}

AddressRange::AddressRange(AddressRange&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

AddressRange::~AddressRange() {
  if (data_ != nullptr) munmap(data_, size_);
}

bool AddressRange::commit(size_t offset, size_t bytes) {
  CHECK(offset <= size_ && bytes <= size_ - offset);
  return mprotect(data_ + offset, bytes, PROT_READ | PROT_WRITE) == 0;
}

void AddressRange::release(size_t offset, size_t bytes) {
  CHECK(offset <= size_ && bytes <= size_ - offset);
  CHECK(madvise(data_ + offset, bytes, MADV_DONTNEED) == 0);
  CHECK(mprotect(data_ + offset, bytes, PROT_NONE) == 0);
}

}  // namespace hf2q
