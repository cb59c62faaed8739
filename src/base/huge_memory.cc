#include "base/huge_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace hf2q {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

Result<HugeMemory> HugeMemory::allocate(size_t size, const char* what) {
  HugeMemory memory;
  memory.size_ = (std::max<size_t>(size, 1) + kHugePage - 1) / kHugePage * kHugePage;
  // One huge page more than needed, so that an aligned block lies inside; the rest is given back.
  void* raw = mmap(nullptr, memory.size_ + kHugePage, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) {
    memory.size_ = 0;
    return error(ErrorCode::kOutOfMemory, "{}: {} bytes cannot be allocated", what, size);
  }
  auto* begin = static_cast<std::byte*>(raw);
  const size_t skip = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (skip > 0) munmap(begin, skip);
  munmap(begin + skip + memory.size_, kHugePage - skip);
  memory.data_ = begin + skip;
  madvise(memory.data_, memory.size_, MADV_HUGEPAGE);
  return memory;
}

void* huge_malloc(size_t size) {
  if (size < kHugePage) return std::malloc(size);
  if (size > SIZE_MAX - kHugePage) return nullptr;
  const size_t whole = (size + kHugePage - 1) / kHugePage * kHugePage;
  void* memory = std::aligned_alloc(kHugePage, whole);
  if (memory != nullptr) madvise(memory, whole, MADV_HUGEPAGE);
  return memory;
}

HugeMemory::HugeMemory(HugeMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

HugeMemory& HugeMemory::operator=(HugeMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

HugeMemory::~HugeMemory() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace hf2q
