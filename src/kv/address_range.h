#pragma once
// Addresses that are reserved first and get memory later, part by part, so that a cache can grow
// and shrink without moving.

#include <cstddef>

#include "base/result.h"

namespace hf2q {

class AddressRange {
 public:
  // Parts are committed in multiples of this (a page of the operating system).
  static size_t granularity();

  // Takes addresses and no memory; they may not be touched yet. Fails with kOutOfMemory, naming the
  // size and the system's reason.
  static Result<AddressRange> reserve(size_t bytes);

  AddressRange(AddressRange&& other) noexcept;
  AddressRange& operator=(AddressRange&&) = delete;
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;
  ~AddressRange();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

  // [offset, offset + bytes), multiples of granularity(), may be touched from now on; huge pages
  // back it where the system has them. False when the system refuses.
  bool commit(size_t offset, size_t bytes);
  // Its memory goes back to the system, and touching it is a fault again.
  void release(size_t offset, size_t bytes);

 private:
  AddressRange() = default;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace hf2q
