#pragma once
// Who computes next: plain state, no threads, no clock, no engine.
//
// A task is one sequence: tokens that are known and rows of them that are in the cache. When all
// rows are there, but the last token's results were not used yet, the task gets its next token
// (on_token) or ends (remove). So a prompt, a decode step and what a sequence that was set back
// reads again are the same: tokens without rows.
//
// Each batch has one row for every running task that lacks one row only, and is filled up with
// chunks of those that lack more, the oldest first. Beside decode rows these chunks are limited, so
// that streams keep their pace: to `beside_decode` rows, plus a credit of one full batch that comes
// back while streams run alone. The credit lets short prompts be read at once.
//
// The oldest task that waits is the next to run; the youngest that runs is set back when memory
// runs out. Hence every running task is older than all that wait, but for answers that were forked
// from an older request and found no place.

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

namespace hf2q {

// Ascending from the oldest.
struct TaskId {
  uint64_t request = 0;
  uint32_t answer = 0;
  bool operator==(const TaskId&) const = default;
  bool operator<(const TaskId& other) const {
    return std::tie(request, answer) < std::tie(other.request, other.answer);
  }
};

struct Share {
  TaskId task;
  uint32_t n_rows = 0;
  bool whole = false;  // the last token's row is among them
  bool operator==(const Share&) const = default;
};

class Scheduler {
 public:
  struct Task {
    uint32_t n_tokens = 0;
    uint32_t n_held = 0;  // first tokens whose rows are in the cache
    bool running = false;
    uint32_t n_lacking() const { return n_tokens - n_held; }
  };

  // CHECKs 0 < max_running <= max_rows.
  Scheduler(uint32_t max_running, uint32_t max_rows);

  // A new task waits. CHECKs that there is none of this id, and n_tokens > 0.
  void add(TaskId id, uint32_t n_tokens);
  void remove(TaskId id);
  // The task that is to start next, if one waits and there is a place.
  std::optional<TaskId> next_to_start() const;
  bool has_place() const { return n_running_ < max_running_; }
  // Begins with its first n_held tokens in the cache. CHECKs n_held <= n_tokens.
  void start(TaskId id, uint32_t n_held);
  // The youngest running task, unless it is the only one.
  std::optional<TaskId> youngest() const;
  // It runs no more, holds no rows and waits.
  void set_back(TaskId id);

  // Empty when nothing runs. CHECKs that no running task holds all of its tokens.
  std::vector<Share> next_batch();
  void on_read(const Share& share);
  // One token more.
  void on_token(TaskId id) { ++tasks_.at(id).n_tokens; }

  // Most prompt rows beside decode rows.
  void set_beside_decode(uint32_t n_rows) { beside_decode_ = n_rows; }

  const std::map<TaskId, Task>& tasks() const { return tasks_; }
  uint32_t n_running() const { return n_running_; }

 private:
  uint32_t prompt_rows(uint32_t n_decode, uint32_t n_wanted);

  const uint32_t max_running_;
  const uint32_t max_rows_;
  uint32_t beside_decode_;
  uint32_t credit_;  // rows
  uint32_t n_running_ = 0;
  std::map<TaskId, Task> tasks_;
};

}  // namespace hf2q
