#pragma once
// Memory in huge pages where the kernel gives them: fewer misses of the address cache where access
// is all over a large block.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "base/result.h"

namespace hf2q {

// A block of anonymous memory, zeroed.
class HugeMemory {
 public:
  HugeMemory() = default;
  // At least `size` bytes, 2 MiB aligned. kOutOfMemory naming `what` and the size.
  static Result<HugeMemory> allocate(size_t size, const char* what);
  HugeMemory(HugeMemory&& other) noexcept;
  HugeMemory& operator=(HugeMemory&& other) noexcept;
  HugeMemory(const HugeMemory&) = delete;
  HugeMemory& operator=(const HugeMemory&) = delete;
  ~HugeMemory();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// At least `size` bytes, for free(); those of 2 MiB and more in huge pages. nullptr when there is
// no memory.
void* huge_malloc(size_t size);

// For standard containers that are large and read at random.
template <class T>
struct HugeAllocator {
  using value_type = T;
  HugeAllocator() = default;
  template <class U>
  explicit HugeAllocator(const HugeAllocator<U>& /*other*/) {}

  T* allocate(size_t n) {
    void* memory = n > SIZE_MAX / sizeof(T) ? nullptr : huge_malloc(n * sizeof(T));
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t /*n*/) { std::free(memory); }
  bool operator==(const HugeAllocator& /*other*/) const { return true; }
};

}  // namespace hf2q
