#include "serve/scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace hf2q {
namespace {

// Steps of streams alone after which a full batch of prompt rows may come between them again: with
// 64 fewer than 2 in 100 steps are long ones.
constexpr uint32_t kStepsPerCredit = 64;

}  // namespace

Scheduler::Scheduler(uint32_t max_running, uint32_t max_rows)
    : max_running_(max_running), max_rows_(max_rows), beside_decode_(max_rows), credit_(max_rows) {
  CHECK(max_running > 0 && max_running <= max_rows);
}

void Scheduler::add(TaskId id, uint32_t n_tokens) {
  CHECK(n_tokens > 0);
  CHECK(tasks_.try_emplace(id, Task{n_tokens, 0, false}).second);
}

void Scheduler::remove(TaskId id) {
  const auto task = tasks_.find(id);
  CHECK(task != tasks_.end());
  if (task->second.running) --n_running_;
  tasks_.erase(task);
}

std::optional<TaskId> Scheduler::next_to_start() const {
  if (!has_place()) return std::nullopt;
  const auto waiting =
      std::ranges::find_if(tasks_, [](const auto& entry) { return !entry.second.running; });
  if (waiting == tasks_.end()) return std::nullopt;
  return waiting->first;
}

void Scheduler::start(TaskId id, uint32_t n_held) {
  Task& task = tasks_.at(id);
  CHECK(has_place() && !task.running && n_held <= task.n_tokens);
  task.running = true;
  task.n_held = n_held;
  ++n_running_;
}

std::optional<TaskId> Scheduler::youngest() const {
  if (n_running_ < 2) return std::nullopt;
  const auto task =
      std::find_if(tasks_.rbegin(), tasks_.rend(), [](const auto& t) { return t.second.running; });
  return task->first;
}

void Scheduler::set_back(TaskId id) {
  Task& task = tasks_.at(id);
  CHECK(task.running);
  task.running = false;
  task.n_held = 0;
  --n_running_;
}

// How many prompt rows this batch takes.
uint32_t Scheduler::prompt_rows(uint32_t n_decode, uint32_t n_wanted) {
  const uint32_t room = max_rows_ - n_decode;
  if (n_decode == 0) return std::min(n_wanted, room);
  if (n_wanted == 0) {
    credit_ = std::min(max_rows_, credit_ + (max_rows_ + kStepsPerCredit - 1) / kStepsPerCredit);
    return 0;
  }
  const uint32_t n_rows = std::min({n_wanted, room, beside_decode_ + credit_});
  credit_ -= n_rows - std::min(n_rows, beside_decode_);
  return n_rows;
}

std::vector<Share> Scheduler::next_batch() {
  uint32_t n_decode = 0;
  uint32_t n_wanted = 0;
  for (const auto& [id, task] : tasks_) {
    if (!task.running) continue;
    CHECK(task.n_lacking() > 0);
    if (task.n_lacking() == 1) {
      ++n_decode;
    } else {
      n_wanted = std::min(max_rows_, n_wanted + std::min(max_rows_, task.n_lacking()));
    }
  }
  uint32_t left = prompt_rows(n_decode, n_wanted);
  std::vector<Share> shares;
  for (const auto& [id, task] : tasks_) {
    if (!task.running) continue;
    const uint32_t n_lacking = task.n_lacking();
    const uint32_t n_rows = n_lacking == 1 ? 1 : std::min(n_lacking, left);
    if (n_rows == 0) continue;
    if (n_lacking > 1) left -= n_rows;
    shares.push_back({id, n_rows, n_rows == n_lacking});
  }
  return shares;
}

void Scheduler::on_read(const Share& share) {
  Task& task = tasks_.at(share.task);
  CHECK(task.running && share.n_rows <= task.n_lacking());
  task.n_held += share.n_rows;
}

}  // namespace hf2q
