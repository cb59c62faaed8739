#pragma once
// Exec: where ops run. The chosen instruction set and a set of persistent threads made for the
// short regions of a forward pass (tens of microseconds, one after another).
//
// Workers spin for a while after a region, so that the next one starts without a system call, and
// sleep when nothing comes. A worker that is late (asleep, or its processor taken away) is not
// waited for: it finds the region closed and does nothing. Nothing is allocated by a region.
//
// Results must not depend on which thread runs what; ops see to it by giving every item of work the
// same arithmetic wherever it runs.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "ops/cpu_isa.h"

namespace hf2q {

class Exec {
 public:
  static constexpr size_t kMaxThreads = 1024;

  // `n_threads` counts the calling thread; 0 means one per processor that this process may use.
  // kInvalidArgument: more than kMaxThreads; kOutOfMemory: the system gives fewer.
  static Result<std::unique_ptr<Exec>> create(size_t n_threads);
  // What 0 threads stand for.
  static size_t default_threads();
  // The same for a number that is known to be had (CHECKed). `isa` may be lower than the machine's
  // (tests), not higher (CHECKed).
  explicit Exec(size_t n_threads = 0, Isa isa = cpu_isa());
  ~Exec();
  Exec(const Exec&) = delete;
  Exec& operator=(const Exec&) = delete;

  Isa isa() const { return isa_; }
  size_t n_threads() const { return workers_.size() + 1; }

  // Calls body(begin, end) on disjoint ranges that cover [0, count), each of `grain` items (the
  // last may be shorter), handed out in ascending order to whichever thread is free, and returns
  // when all are done. A body of three arguments also gets the index of its thread, 0 (the
  // caller) <= thread < n_threads(), for scratch of its own.
  // One region at a time: bodies must not start another, and an Exec has one calling thread.
  template <class Body>
  void parallel_for(size_t count, size_t grain, const Body& body) {
    run_region(count, grain, &call<Body>, &body);
  }

 private:
  using RangeFunction = void (*)(const void* body, size_t begin, size_t end, size_t thread);
  // What workers need to know of a region. Written while the region is closed and no worker is
  // inside; read by workers that have entered.
  struct Region {
    RangeFunction function = nullptr;
    const void* body = nullptr;
    size_t count = 0;
    size_t grain = 1;
  };

  template <class Body>
  static void call(const void* body, size_t begin, size_t end, size_t thread) {
    if constexpr (std::is_invocable_v<const Body&, size_t, size_t, size_t>) {
      (*static_cast<const Body*>(body))(begin, end, thread);
    } else {
      (*static_cast<const Body*>(body))(begin, end);
    }
  }

  struct NoWorkers {};  // chooses the constructor that start() follows
  Exec(NoWorkers, Isa isa) : isa_(isa) {}
  Status start(size_t n_threads);
  void run_region(size_t count, size_t grain, RangeFunction function, const void* body);
  void run_ranges(const Region& region, size_t thread);
  void work(size_t thread);
  uint32_t wait_for_region(uint32_t seen);
  bool enter();

  const Isa isa_;
  size_t spin_limit_ = 0;  // looks at epoch_ before a worker sleeps
  std::vector<std::thread> workers_;
  Region region_;
  alignas(64) std::atomic<size_t> next_{0};      // first item of the region not yet handed out
  alignas(64) std::atomic<uint32_t> inside_{0};  // kOpen | number of workers inside
  alignas(64) std::atomic<uint32_t> epoch_{0};   // regions opened; also changed to stop
  std::atomic<bool> stopping_{false};
};

}  // namespace hf2q
