#pragma once
// Requests on the engine, one batch after the other; one thread.

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/answer.h"
#include "engine/engine.h"
#include "serve/kept_prompts.h"
#include "serve/metrics.h"
#include "serve/request.h"
#include "serve/scheduler.h"
#include "serve/step_cost.h"

namespace hf2q {

using ServeClock = std::chrono::steady_clock;

// A request that was found good, and how far it is.
struct Job {
  RequestId id = 0;
  ServeRequest request;
  AnswerOptions answer;  // choice is set for each
  StopMatcher stops;
  EventSink sink;
  ServeClock::time_point submitted = ServeClock::now();

  bool begun = false;   // it has been given a place in a batch
  bool forked = false;  // all of its answers have begun
  bool spoke = false;   // its first token was chosen
  uint32_t n_cached = 0;
  uint32_t n_read = 0;  // tokens of the prompt
  uint32_t n_open = 0;  // answers that have not ended
  ServeClock::time_point started{};
  double prompt_milliseconds = 0;

  uint32_t n_prompt() const { return static_cast<uint32_t>(request.prompt.size()); }
};

class EngineLoop {
 public:
  // CHECKs 0 < max_running <= the engine's max_rows and max_outputs.
  EngineLoop(Engine& engine, uint32_t max_running);

  void add(std::unique_ptr<Job> job);
  void cancel(RequestId id);  // or nothing, when it has ended
  // Starts what fits, runs a batch and tells the sinks. False when there is nothing to do.
  bool step();

  size_t n_open() const { return jobs_.size(); }
  ServiceStats stats() const;
  KeptPrompts& kept() { return kept_; }

 private:
  struct Speaker {
    std::vector<int32_t> tokens;  // of the prompt and the answer
    Sequence sequence;
    Answer answer;
    ServeClock::time_point first_token;
    ServeClock::time_point last_token;
  };

  void add_speaker(Job& job, uint32_t answer, Sequence sequence);
  void admit();
  bool try_start(TaskId id);
  bool fits(const Sequence& sequence, uint32_t n_tokens) const;
  void count_start(Job& job, const PrefixMatch& match);
  std::vector<Share> run_batch();
  void make_way(const Error& error, std::span<const Share> shares);
  void set_back(TaskId id);
  void deliver(std::span<const Share> shares);
  void on_rows(Job& job, const Share& share);
  void on_output(Job& job, uint32_t answer, std::span<const float> values);
  void fork_answers(Job& job);
  void next_token(Job& job, uint32_t answer, std::span<const float> logits);
  void count_token(Job& job, Speaker& speaker);
  void end_answer(Job& job, uint32_t answer);
  void keep(const Job& job, Speaker& speaker);
  void embed(Job& job, std::span<const float> hidden);
  void fail(Job& job, const Error& error);
  void end(Job& job);
  void forget(Job& job);

  Engine& engine_;
  Scheduler scheduler_;
  StepCost cost_;
  std::map<RequestId, std::unique_ptr<Job>> jobs_;
  std::map<TaskId, Speaker> speakers_;
  SampleScratch scratch_;
  KeptPrompts kept_;
  Metrics metrics_;
};

}  // namespace hf2q
