#include "ops/exec.h"

#include <algorithm>
#include <system_error>

#include "base/check.h"
#include "base/parallel.h"

namespace hf2q {
namespace {

constexpr uint32_t kOpen = uint32_t{1} << 31;
// About 100 microseconds: longer than the serial stretches of a forward pass.
constexpr size_t kWorkerSpins = 4000;
constexpr size_t kCallerSpins = 1000;

void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace

size_t Exec::default_threads() {
  return std::min(usable_processors(), kMaxThreads);
}

Result<std::unique_ptr<Exec>> Exec::create(size_t n_threads) {
  std::unique_ptr<Exec> exec(new Exec(NoWorkers{}, cpu_isa()));
  TRY_OK(exec->start(n_threads));
  return exec;
}

Exec::Exec(size_t n_threads, Isa isa) : Exec(NoWorkers{}, isa) {
  CHECK(isa <= cpu_isa());
  CHECK(start(n_threads).ok());
}

// Threads that were made before a failure end with the Exec.
Status Exec::start(size_t n_threads) {
  if (n_threads > kMaxThreads) {
    return error(ErrorCode::kInvalidArgument, "threads: 1 to {} expected, found {}", kMaxThreads,
                 n_threads);
  }
  if (n_threads == 0) n_threads = default_threads();
  // With more threads than processors a spinning one keeps a working one from running.
  spin_limit_ = n_threads <= usable_processors() ? kWorkerSpins : 0;
  workers_.reserve(n_threads - 1);
  try {
    for (size_t i = 1; i < n_threads; ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (const std::system_error& refused) {
    return error(ErrorCode::kOutOfMemory, "threads: {} expected, the system gives {} ({})",
                 n_threads, workers_.size() + 1, refused.what());
  }
  return Ok{};
}

Exec::~Exec() {
  stopping_.store(true);
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Exec::run_region(size_t count, size_t grain, RangeFunction function, const void* body) {
  CHECK(grain > 0);
  if (count == 0) return;
  if (count <= grain || workers_.empty()) {
    for (size_t begin = 0; begin < count; begin += grain) {
      function(body, begin, std::min(begin + grain, count), 0);
    }
    return;
  }
  region_ = {function, body, count, grain};
  next_.store(0, std::memory_order_relaxed);
  inside_.store(kOpen, std::memory_order_release);
  epoch_.fetch_add(1);
  epoch_.notify_all();
  run_ranges(region_, 0);
  inside_.fetch_and(~kOpen, std::memory_order_acq_rel);
  for (size_t spins = 0; inside_.load(std::memory_order_acquire) != 0; ++spins) {
    if (spins < kCallerSpins) {
      cpu_relax();
    } else {
      std::this_thread::yield();
    }
  }
}

void Exec::run_ranges(const Region& region, size_t thread) {
  while (true) {
    const size_t begin = next_.fetch_add(region.grain, std::memory_order_relaxed);
    if (begin >= region.count) return;
    region.function(region.body, begin, std::min(begin + region.grain, region.count), thread);
  }
}

uint32_t Exec::wait_for_region(uint32_t seen) {
  for (size_t spins = 0; spins < spin_limit_; ++spins) {
    const uint32_t epoch = epoch_.load(std::memory_order_acquire);
    if (epoch != seen) return epoch;
    cpu_relax();
  }
  epoch_.wait(seen, std::memory_order_acquire);
  return epoch_.load(std::memory_order_acquire);
}

// Joins the region that is open, if any. While a worker is counted in inside_ the caller neither
// returns nor writes region_, so an entered worker reads the region that was open when it entered.
bool Exec::enter() {
  uint32_t inside = inside_.load(std::memory_order_relaxed);
  while ((inside & kOpen) != 0) {
    if (inside_.compare_exchange_weak(inside, inside + 1, std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

void Exec::work(size_t thread) {
  uint32_t seen = 0;
  while (true) {
    seen = wait_for_region(seen);
    if (stopping_.load()) return;
    if (!enter()) continue;
    run_ranges(region_, thread);
    inside_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace hf2q
