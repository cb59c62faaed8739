#include "kv/error.h"

namespace hf2q {
namespace {

Error describe(const CapacityExceeded& e) {
  return error(ErrorCode::kInvalidArgument, "sequence: at most {} tokens expected, found {}",
               e.capacity, e.needed);
}

Error describe(const BudgetExceeded& e) {
  return error(ErrorCode::kOutOfMemory,
               "cache: {} pages of group {} needed, {} free; {} bytes needed, {} of {} free",
               e.needed_pages, e.group, e.free_pages, e.needed_bytes, e.free_bytes, e.budget_bytes);
}

Error describe(const SystemMemoryExceeded& e) {
  return error(ErrorCode::kOutOfMemory,
               "cache: the system has no {} bytes, although the budget has", e.needed_bytes);
}

Error describe(const OutOfRange& e) {
  return error(ErrorCode::kInvalidArgument, "sequence: position 0 to {} expected, found {}",
               e.length, e.position);
}

Error describe(const NotResident& e) {
  return error(ErrorCode::kInvalidArgument,
               "sequence: rows from position {} needed, group {} has them from {} on", e.position,
               e.group, e.first_resident);
}

}  // namespace

Error to_error(const KvError& error) {
  return std::visit([](const auto& e) { return describe(e); }, error);
}

}  // namespace hf2q
