#pragma once
// A fixed set of threads for loops over independent items.

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace hf2q {

class ThreadPool {
 public:
  // `n_threads` counts the calling thread; 0 means one per processor that this process may use.
  // Where the system gives fewer, size() says how many there are.
  explicit ThreadPool(size_t n_threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  size_t size() const { return workers_.size() + 1; }

  // Calls task(i) once for each i in [0, count), from any thread of the pool and the calling one,
  // and returns when all are done. Items are handed out one by one, in ascending order. Not
  // reentrant.
  void parallel_for(size_t count, const std::function<void(size_t)>& task);

 private:
  void work();
  void run_items();

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  const std::function<void(size_t)>* task_ = nullptr;
  size_t count_ = 0;
  std::atomic<size_t> next_{0};
  size_t busy_ = 0;          // workers that have not finished the current loop
  uint64_t generation_ = 0;  // number of loops started
  bool stopping_ = false;
};

// Starts `count` threads that run `work`, or fewer where the system gives no more (a limit on
// processes or on memory). Whoever calls this has to get along with none.
void start_threads(std::vector<std::thread>& threads, size_t count,
                   const std::function<void()>& work);

// Processors that this process may use (its affinity mask), at least 1.
size_t usable_processors();

}  // namespace hf2q
