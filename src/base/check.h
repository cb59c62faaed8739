#pragma once
// CHECK(condition): a caller in our own code broke a contract. In all builds; ends the process with
// the place and the condition. DCHECK: the same in hot loops, only where NDEBUG is not set.

#include <cstdio>
#include <cstdlib>

namespace hf2q {

[[noreturn]] inline void check_failed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace hf2q

#define CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::hf2q::check_failed(__FILE__, __LINE__, #condition))
#ifdef NDEBUG
#define DCHECK(condition) static_cast<void>(sizeof(condition))
#else
#define DCHECK(condition) CHECK(condition)
#endif
