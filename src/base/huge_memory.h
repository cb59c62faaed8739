#pragma once
// A block of anonymous memory, zeroed, in huge pages where the kernel gives them.

#include <cstddef>

#include "base/result.h"

namespace hf2q {

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

}  // namespace hf2q
