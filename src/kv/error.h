#pragma once
// Why an operation on the cache was refused. All are checked before anything changes.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "base/result.h"

namespace hf2q {

// A sequence would become longer than its context.
struct CapacityExceeded {
  uint64_t needed;    // tokens
  uint64_t capacity;  // tokens
  bool operator==(const CapacityExceeded&) const = default;
};

// The pool has too few pages. `group` is the first one that cannot be served; its free pages are
// those that it could have if no other group took any.
struct BudgetExceeded {
  size_t group;
  uint64_t needed_pages;  // of this group
  uint64_t free_pages;    // of this group
  uint64_t needed_bytes;  // of all groups together
  uint64_t free_bytes;
  uint64_t budget_bytes;
  bool operator==(const BudgetExceeded&) const = default;
};

// The operating system gave no memory although the budget allowed it.
struct SystemMemoryExceeded {
  uint64_t needed_bytes;
  bool operator==(const SystemMemoryExceeded&) const = default;
};

// A position that the sequence never reached.
struct OutOfRange {
  uint64_t position;
  uint64_t length;
  bool operator==(const OutOfRange&) const = default;
};

// Rows that are needed have left the window of a group.
struct NotResident {
  size_t group;
  uint64_t position;        // the first one that is needed
  uint64_t first_resident;  // the first one that is still there
  bool operator==(const NotResident&) const = default;
};

using KvError =
    std::variant<CapacityExceeded, BudgetExceeded, SystemMemoryExceeded, OutOfRange, NotResident>;

// What a refusable operation returns: nothing when all went well.
using KvStatus = std::optional<KvError>;

// The same as a message for people. kOutOfMemory for the budget and the system, else
// kInvalidArgument.
Error to_error(const KvError& error);

}  // namespace hf2q
