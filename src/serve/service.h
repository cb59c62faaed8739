#pragma once
// The server without its network: requests in from any thread, events out from one thread, which
// owns the engine and runs a batch after the other (engine_loop.h).

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "serve/kept_prompts.h"
#include "serve/metrics.h"
#include "serve/request.h"

namespace hf2q {

class EngineLoop;
struct Job;

struct ServiceOptions {
  uint32_t max_running = 4;  // most sequences in a batch; no memory belongs to one
  uint32_t max_queue = 64;   // most requests beyond these that are kept waiting
};

// Why a request was not taken.
struct Rejection {
  enum class Kind : uint8_t {
    kInvalid,    // what was asked cannot be meant: the message names the field
    kContext,    // the prompt, or prompt and answer, are longer than a sequence can be
    kQueueFull,  // try again later
    kDraining,   // no request is taken any more
  };
  Kind kind = Kind::kInvalid;
  std::string message;
  // Of kContext:
  uint64_t n_prompt_tokens = 0;  // or prompt and answer, where these exceed the cache budget
  uint64_t n_ctx = 0;            // most tokens of a sequence
};

using Submission = std::variant<RequestId, Rejection>;

class Service {
 public:
  // Warms up. kInvalidArgument: max_running is 0 or beyond what the engine's batches hold;
  // kOutOfMemory: the system gives no thread; errors of the warm-up batch.
  static Result<std::unique_ptr<Service>> start(std::unique_ptr<Engine> engine,
                                                const ServiceOptions& options);
  // Ends after the step in work; requests that are still open get no further event.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // [any thread, but not from a sink] The sink is called until RequestEnd or RequestFailure came,
  // or the request was cancelled.
  Submission submit(ServeRequest request, EventSink sink);
  // [any thread] The sequences are given up before the next batch. Events of the batch in work may
  // still come. Nothing happens when the request has ended.
  void cancel(RequestId id);

  // [any thread] From now on no request is taken; those that are open go on.
  void drain();
  // [any thread, but not from a sink] Returns when drain() was called and every request has ended.
  void wait_drained();
  // [any thread] A request would be served: not draining.
  bool ready() const;
  // [any thread] As of the last batch.
  ServiceStats stats() const;
  // [any thread] What does not change: tokenizer, config, file, weights' sizes, memory plan.
  const Engine& engine() const { return *engine_; }
  const ServiceOptions& options() const { return options_; }
  // [any thread] Most tokens of a sequence: the context, or what the whole
  // cache budget can hold.
  uint32_t max_length() const { return max_length_; }
  // [any thread, but not from a sink] What was read of late, as files: see KeptPrompts.
  KeptReport load_prompts(const std::string& folder, const NameSpaceLabels& labels);
  KeptReport save_prompts(const std::string& folder, const NameSpaceLabels& labels);
  // [any thread, but not from a sink] Calls `task` between two batches, on the engine's thread.
  void with_engine(const std::function<void(Engine&)>& task);

 private:
  Service(std::unique_ptr<Engine> engine, const ServiceOptions& options);
  std::optional<Rejection> too_long(const ServeRequest& request) const;
  Result<std::unique_ptr<Job>> make_job(ServeRequest request, EventSink sink) const;
  Rejection refuse(Rejection rejection);
  Submission enqueue(std::unique_ptr<Job> job);
  void work();
  bool take_orders();
  void publish();

  std::unique_ptr<Engine> engine_;
  ServiceOptions options_;
  const uint32_t max_length_;
  std::unique_ptr<EngineLoop> loop_;  // of the engine's thread
  std::thread thread_;

  mutable std::mutex mutex_;  // of all below
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::vector<std::unique_ptr<Job>> new_jobs_;
  std::vector<RequestId> cancelled_;
  const std::function<void(Engine&)>* task_ = nullptr;
  RequestId last_id_ = 0;
  size_t n_open_ = 0;
  bool draining_ = false;
  bool stopping_ = false;
  Outcomes refused_;
  ServiceStats stats_;
};

}  // namespace hf2q
