#include "serve/service.h"

#include <algorithm>
#include <utility>

#include "base/parallel.h"
#include "engine/generate.h"
#include "serve/admission.h"
#include "serve/engine_loop.h"

namespace hf2q {
namespace {

// Pages of weights, threads and tables are there before the first request comes.
Status warm_up(Engine& engine) {
  Sequence sequence = engine.new_sequence();
  const size_t n = std::min<size_t>({16, engine.n_ctx(), engine.max_rows()});
  const std::vector<int32_t> ids(n, engine.tokenizer().vocabulary().bos);
  return read_prompt(engine, sequence, ids, Wants::kLogits);
}

}  // namespace

Result<std::unique_ptr<Service>> Service::start(std::unique_ptr<Engine> engine,
                                                const ServiceOptions& options) {
  const uint32_t most = std::min(engine->max_rows(), engine->max_outputs());
  if (options.max_running == 0 || options.max_running > most) {
    return error(ErrorCode::kInvalidArgument, "slots: 1 to {} (of a batch) expected, found {}",
                 most, options.max_running);
  }
  TRY_OK(warm_up(*engine));
  std::unique_ptr<Service> service(new Service(std::move(engine), options));
  std::vector<std::thread> threads;
  start_threads(threads, 1, [service = service.get()] { service->work(); });
  if (threads.empty())
    return error(ErrorCode::kOutOfMemory, "slots: the system gives no thread for the engine");
  service->thread_ = std::move(threads.front());
  return service;
}

Service::Service(std::unique_ptr<Engine> engine, const ServiceOptions& options)
    : engine_(std::move(engine)),
      options_(options),
      max_length_(longest_sequence(*engine_)),
      loop_(std::make_unique<EngineLoop>(*engine_, options.max_running)) {
  stats_ = loop_->stats();
}

Service::~Service() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::optional<Rejection> Service::too_long(const ServeRequest& request) const {
  const uint64_t n_prompt = request.prompt.size();
  const uint64_t n_ctx = engine_->n_ctx();
  const uint64_t least = n_prompt + (request.embedding ? 0 : 1);
  if (least > n_ctx) {
    return Rejection{Rejection::Kind::kContext,
                     fmt::format("prompt: {} tokens, but the context has {} for prompt and answer",
                                 n_prompt, n_ctx),
                     n_prompt, n_ctx};
  }
  uint64_t wanted = least;
  if (!request.embedding && request.max_tokens > 0) {
    wanted = n_prompt + answer_limit(request.max_tokens, n_ctx - n_prompt);
  }
  if (wanted <= max_length_) return std::nullopt;
  return Rejection{Rejection::Kind::kContext,
                   fmt::format("prompt and answer: {} tokens, but the cache budget holds {}",
                               wanted, max_length_),
                   wanted, max_length_};
}

Result<std::unique_ptr<Job>> Service::make_job(ServeRequest request, EventSink sink) const {
  TRY(params, answer_params(*engine_, request.sampling));
  TRY(stops, StopMatcher::create(request.stops));
  if (request.n_answers == 0)
    return error(ErrorCode::kInvalidArgument, "n: at least 1 answer expected, found 0");
  AnswerOptions answer;
  answer.sampling = std::move(params);
  answer.limit = answer_limit(request.max_tokens, max_length_ - request.prompt.size());
  answer.ignore_eos = request.ignore_eos;
  answer.grammar = request.grammar;
  return std::unique_ptr<Job>(new Job{.request = std::move(request),
                                      .answer = std::move(answer),
                                      .stops = std::move(stops),
                                      .sink = std::move(sink)});
}

Rejection Service::refuse(Rejection rejection) {
  const std::lock_guard lock(mutex_);
  ++(rejection.kind == Rejection::Kind::kContext ? refused_.refused_context
                                                 : refused_.refused_other);
  return rejection;
}

Submission Service::submit(ServeRequest request, EventSink sink) {
  if (std::optional<Rejection> rejection = too_long(request)) return refuse(*rejection);
  const Status good = check_prompt(*engine_, request.prompt.size(), request.prompt);
  if (!good.ok()) return refuse({Rejection::Kind::kInvalid, good.error().message});
  Result<std::unique_ptr<Job>> job = make_job(std::move(request), std::move(sink));
  if (!job.ok()) return refuse({Rejection::Kind::kInvalid, job.error().message});
  return enqueue(std::move(job.value()));
}

Submission Service::enqueue(std::unique_ptr<Job> job) {
  RequestId id = 0;
  {
    const std::lock_guard lock(mutex_);
    if (draining_) {
      ++refused_.refused_other;
      return Rejection{Rejection::Kind::kDraining, "the server is shutting down"};
    }
    if (n_open_ >= size_t{options_.max_running} + options_.max_queue) {
      ++refused_.refused_queue;
      return Rejection{Rejection::Kind::kQueueFull,
                       fmt::format("queue: at most {} waiting requests expected, found one more",
                                   options_.max_queue)};
    }
    ++n_open_;
    id = ++last_id_;
    job->id = id;
    new_jobs_.push_back(std::move(job));
  }
  wake_.notify_all();
  return id;
}

void Service::cancel(RequestId id) {
  {
    const std::lock_guard lock(mutex_);
    cancelled_.push_back(id);
  }
  wake_.notify_all();
}

void Service::drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
  idle_.notify_all();
}

void Service::wait_drained() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return draining_ && n_open_ == 0; });
}

bool Service::ready() const {
  const std::lock_guard lock(mutex_);
  return !draining_;
}

ServiceStats Service::stats() const {
  const std::lock_guard lock(mutex_);
  ServiceStats stats = stats_;
  Outcomes& outcomes = stats.metrics.outcomes;
  outcomes.refused_context = refused_.refused_context;
  outcomes.refused_queue = refused_.refused_queue;
  outcomes.refused_other = refused_.refused_other;
  return stats;
}

void Service::with_engine(const std::function<void(Engine&)>& task) {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return task_ == nullptr; });
  task_ = &task;
  wake_.notify_all();
  idle_.wait(lock, [&] { return task_ != &task; });
}

KeptReport Service::load_prompts(const std::string& folder, const NameSpaceLabels& labels) {
  KeptReport report;
  with_engine([&](Engine& engine) { report = loop_->kept().load(engine, folder, labels); });
  return report;
}

KeptReport Service::save_prompts(const std::string& folder, const NameSpaceLabels& labels) {
  KeptReport report;
  with_engine([&](Engine& engine) { report = loop_->kept().save(engine, folder, labels); });
  return report;
}

// Waits for something to do. False when the service ends.
bool Service::take_orders() {
  std::vector<std::unique_ptr<Job>> jobs;
  std::vector<RequestId> cancelled;
  const std::function<void(Engine&)>* task = nullptr;
  {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] {
      return stopping_ || task_ != nullptr || !new_jobs_.empty() || !cancelled_.empty() ||
             loop_->n_open() > 0;
    });
    if (stopping_) return false;
    jobs.swap(new_jobs_);
    cancelled.swap(cancelled_);
    task = task_;
  }
  for (std::unique_ptr<Job>& job : jobs) loop_->add(std::move(job));
  for (const RequestId id : cancelled) loop_->cancel(id);
  if (task == nullptr) return true;
  (*task)(*engine_);
  const std::lock_guard lock(mutex_);
  task_ = nullptr;
  idle_.notify_all();
  return true;
}

void Service::publish() {
  ServiceStats stats = loop_->stats();
  const std::lock_guard lock(mutex_);
  stats_ = std::move(stats);
  n_open_ = new_jobs_.size() + loop_->n_open();
  if (n_open_ == 0) idle_.notify_all();
}

void Service::work() {
  while (take_orders()) {
    (void)loop_->step();
    publish();
  }
}

}  // namespace hf2q
