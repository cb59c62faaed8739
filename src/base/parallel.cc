#include "base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <system_error>

namespace hf2q {

size_t usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    return static_cast<size_t>(std::max(1, CPU_COUNT(&set)));
  }
  return std::max<size_t>(1, std::thread::hardware_concurrency());
}

void start_threads(std::vector<std::thread>& threads, size_t count,
                   const std::function<void()>& work) {
  threads.reserve(threads.size() + count);
  try {
    for (size_t i = 0; i < count; ++i) threads.emplace_back(work);
  } catch (const std::system_error&) {
    // The system gives no more: the others do the work.
  }
}

ThreadPool::ThreadPool(size_t n_threads) {
  if (n_threads == 0) n_threads = usable_processors();
  start_threads(workers_, n_threads - 1, [this] { work(); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  start_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run_items() {
  for (size_t i = next_.fetch_add(1); i < count_; i = next_.fetch_add(1)) (*task_)(i);
}

void ThreadPool::work() {
  uint64_t seen = 0;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return stopping_ || generation_ != seen; });
      if (stopping_) return;
      seen = generation_;
    }
    run_items();
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) done_.notify_one();
  }
}

void ThreadPool::parallel_for(size_t count, const std::function<void(size_t)>& task) {
  {
    const std::lock_guard lock(mutex_);
    task_ = &task;
    count_ = count;
    next_ = 0;
    busy_ = workers_.size();
    ++generation_;
  }
  start_.notify_all();
  run_items();
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return busy_ == 0; });
}

}  // namespace hf2q
