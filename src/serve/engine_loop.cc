#include "serve/engine_loop.h"

#include <algorithm>

#include "base/check.h"
#include "engine/embedding.h"
#include "engine/generate.h"
#include "serve/admission.h"

namespace hf2q {
namespace {

double seconds_between(ServeClock::time_point from, ServeClock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

uint32_t decode_rows(std::span<const Share> shares, const Scheduler& scheduler) {
  return static_cast<uint32_t>(std::ranges::count_if(shares, [&](const Share& share) {
    return scheduler.tasks().at(share.task).n_lacking() == 1;
  }));
}

}  // namespace

EngineLoop::EngineLoop(Engine& engine, uint32_t max_running)
    : engine_(engine), scheduler_(max_running, engine.max_rows()), cost_(max_running) {
  CHECK(max_running <= engine.max_outputs());
}

void EngineLoop::add(std::unique_ptr<Job> job) {
  job->n_open = job->request.embedding ? 1 : job->request.n_answers;
  add_speaker(*job, 0, engine_.new_sequence());
  scheduler_.add({job->id, 0}, job->n_prompt());
  const RequestId id = job->id;
  jobs_.emplace(id, std::move(job));
}

void EngineLoop::add_speaker(Job& job, uint32_t answer, Sequence sequence) {
  AnswerOptions options = job.answer;
  options.choice = answer;
  speakers_.emplace(TaskId{job.id, answer}, Speaker{job.request.prompt,
                                                    std::move(sequence),
                                                    Answer(engine_, std::move(options), job.stops),
                                                    {},
                                                    {}});
}

void EngineLoop::cancel(RequestId id) {
  const auto job = jobs_.find(id);
  if (job == jobs_.end()) return;
  ++metrics_.outcomes.cancelled;
  forget(*job->second);
}

// Takes the request's tasks, and the request.
void EngineLoop::forget(Job& job) {
  const TaskId first = {job.id, 0};
  const TaskId next = {job.id + 1, 0};
  for (auto at = speakers_.lower_bound(first); at != speakers_.lower_bound(next);) {
    scheduler_.remove(at->first);
    at = speakers_.erase(at);
  }
  jobs_.erase(job.id);
}

bool EngineLoop::step() {
  admit();
  const std::vector<Share> shares = run_batch();
  if (shares.empty()) return false;
  deliver(shares);
  return true;
}

void EngineLoop::admit() {
  while (const std::optional<TaskId> id = scheduler_.next_to_start()) {
    if (!try_start(*id)) return;
  }
}

// Attaches first: what the tree has of the tokens is pinned then, and neither free nor needed.
bool EngineLoop::try_start(TaskId id) {
  Job& job = *jobs_.at(id.request);
  Speaker& speaker = speakers_.at(id);
  Sequence sequence = engine_.new_sequence();
  const PrefixMatch match =
      sequence.attach(engine_.prefixes(), job.request.name_space, prompt_keys(speaker.tokens));
  const auto n_tokens = static_cast<uint32_t>(speaker.tokens.size());
  if (scheduler_.n_running() > 0 && !fits(sequence, n_tokens)) return false;
  if (!job.request.embedding && sequence.length() < job.n_prompt()) sequence.mark(job.n_prompt());
  scheduler_.start(id, sequence.length());
  if (!job.begun) count_start(job, match);
  speaker.sequence = std::move(sequence);
  return true;
}

// Beside what those that run have yet to read, the rest of its tokens, a page to grow and one that
// is copied before it is written.
bool EngineLoop::fits(const Sequence& sequence, uint32_t n_tokens) const {
  std::vector<uint64_t> counts = pages_to_go(engine_, sequence.length(), n_tokens);
  for (uint64_t& count : counts) ++count;
  for (const auto& [id, task] : scheduler_.tasks()) {
    if (!task.running) continue;
    const std::vector<uint64_t> more = pages_to_go(engine_, task.n_held, task.n_tokens);
    for (size_t g = 0; g < counts.size(); ++g) counts[g] += more[g];
  }
  return engine_.pool().could_allocate(counts);
}

void EngineLoop::count_start(Job& job, const PrefixMatch& match) {
  job.begun = true;
  job.n_cached = match.k;
  job.n_read = match.k;
  job.started = ServeClock::now();
  metrics_.prompt_tokens += job.n_prompt();
  metrics_.reused_tokens += match.k;
  ++metrics_.prefix_queries;
  if (match.k > 0) ++metrics_.prefix_hits;
  ++metrics_.reuse_limits[static_cast<size_t>(match.limit)];
}

// Runs a batch, with fewer sequences where memory or numbers fail; none: nothing runs.
std::vector<Share> EngineLoop::run_batch() {
  for (;;) {
    std::vector<Share> shares = scheduler_.next_batch();
    if (shares.empty()) return shares;
    Batch batch;
    std::vector<Sequence*> sequences;
    for (const Share& share : shares) {
      const Job& job = *jobs_.at(share.task.request);
      Speaker& speaker = speakers_.at(share.task);
      const uint32_t begin = speaker.sequence.length();
      const Wants output = job.request.embedding ? Wants::kHidden : Wants::kLogits;
      append_rows(batch, static_cast<uint32_t>(sequences.size()), begin,
                  std::span(speaker.tokens).subspan(begin, share.n_rows),
                  share.whole ? output : Wants::kNothing);
      sequences.push_back(&speaker.sequence);
    }
    const ServeClock::time_point start = ServeClock::now();
    const Status status = engine_.run(batch, sequences);
    if (!status.ok()) {
      make_way(status.error(), shares);
      continue;
    }
    const uint32_t n_decode = decode_rows(shares, scheduler_);
    cost_.observe(n_decode, static_cast<uint32_t>(batch.rows.size()) - n_decode,
                  seconds_between(start, ServeClock::now()));
    scheduler_.set_beside_decode(cost_.rows_beside(scheduler_.n_running(), engine_.max_rows()));
    ++metrics_.steps;
    return shares;
  }
}

// After a batch that was refused as a whole: the next one lacks a sequence of it.
void EngineLoop::make_way(const Error& error, std::span<const Share> shares) {
  if (const std::optional<uint32_t> failed = engine_.failed_sequence()) {
    return fail(*jobs_.at(shares[*failed].task.request), error);
  }
  const std::optional<TaskId> youngest = scheduler_.youngest();
  if (error.code == ErrorCode::kOutOfMemory && youngest) return set_back(*youngest);
  fail(*jobs_.at(shares.front().task.request), error);
}

// Its pages stay in the tree until they are needed.
void EngineLoop::set_back(TaskId id) {
  Sequence& sequence = speakers_.at(id).sequence;
  if (sequence.length() > 0) sequence.mark(sequence.length());
  sequence.drop();
  scheduler_.set_back(id);
  ++metrics_.preemptions;
}

void EngineLoop::deliver(std::span<const Share> shares) {
  const size_t vocab_size = engine_.config().vocab_size;
  const size_t hidden_dim = engine_.config().hidden_dim;
  std::span<const float> logits = engine_.logits();
  std::span<const float> hidden = engine_.hidden();
  for (const Share& share : shares) {
    std::span<const float> values;
    const auto job = jobs_.find(share.task.request);
    // A request may have ended since, by another answer of it that failed.
    const bool is_open = job != jobs_.end();
    if (is_open) on_rows(*job->second, share);
    if (!share.whole) continue;
    const bool embedding = is_open && job->second->request.embedding;
    std::span<const float>& rest = embedding ? hidden : logits;
    values = rest.first(embedding ? hidden_dim : vocab_size);
    rest = rest.subspan(values.size());
    if (is_open) on_output(*job->second, share.task.answer, values);
  }
}

void EngineLoop::on_rows(Job& job, const Share& share) {
  const uint32_t before = scheduler_.tasks().at(share.task).n_held;
  scheduler_.on_read(share);
  const uint32_t n_read = std::min(before + share.n_rows, job.n_prompt());
  metrics_.read_tokens += n_read - std::min(before, n_read);
  if (n_read <= job.n_read) return;
  job.n_read = n_read;
  job.prompt_milliseconds = 1e3 * seconds_between(job.started, ServeClock::now());
  if (!job.request.progress) return;
  job.sink(PromptProgress{job.n_prompt(), job.n_cached, n_read, job.prompt_milliseconds});
}

// `values` are those of the last token.
void EngineLoop::on_output(Job& job, uint32_t answer, std::span<const float> values) {
  if (job.request.embedding) return embed(job, values);
  const bool forks = !job.forked;
  const RequestId id = job.id;
  if (forks) fork_answers(job);
  const uint32_t end = forks ? job.request.n_answers : answer + 1;
  for (uint32_t i = answer; i < end && jobs_.contains(id); ++i) next_token(job, i, values);
}

// All answers begin behind one reading of the prompt. Those without a place wait, and find its rows
// in the tree later.
void EngineLoop::fork_answers(Job& job) {
  job.forked = true;
  const Sequence& prompt = speakers_.at({job.id, 0}).sequence;
  for (uint32_t i = 1; i < job.request.n_answers; ++i) {
    const bool runs = scheduler_.has_place();
    add_speaker(job, i, runs ? prompt.fork() : engine_.new_sequence());
    scheduler_.add({job.id, i}, job.n_prompt());
    if (runs) scheduler_.start({job.id, i}, job.n_prompt());
  }
}

void EngineLoop::next_token(Job& job, uint32_t index, std::span<const float> logits) {
  Speaker& speaker = speakers_.at({job.id, index});
  Answer& answer = speaker.answer;
  if (!answer.goes_on()) return end_answer(job, index);  // it may have no token
  const Result<int32_t> token = answer.choose(logits, job.request.prompt, scratch_);
  if (!token.ok()) return fail(job, token.error());
  TokenEvent event;
  event.answer = index;
  event.token = token.value();
  if (answer.goes_on()) event.text = answer.show();
  if (job.request.n_top_log_probs) {
    Result<LogProbs> found = log_probs(logits, token.value(), *job.request.n_top_log_probs);
    if (!found.ok()) return fail(job, found.error());
    event.log_probs = std::move(found.value());
  }
  count_token(job, speaker);
  speaker.tokens.push_back(token.value());
  scheduler_.on_token({job.id, index});
  job.sink(std::move(event));
  if (!answer.goes_on()) end_answer(job, index);
}

void EngineLoop::count_token(Job& job, Speaker& speaker) {
  const ServeClock::time_point now = ServeClock::now();
  ++metrics_.generated_tokens;
  if (!job.spoke) {
    job.spoke = true;
    job.prompt_milliseconds = 1e3 * seconds_between(job.started, now);
    metrics_.first_token.observe(seconds_between(job.submitted, now));
  }
  if (speaker.answer.ids().size() == 1) {
    speaker.first_token = now;
  } else {
    metrics_.token.observe(seconds_between(speaker.last_token, now));
  }
  speaker.last_token = now;
}

void EngineLoop::end_answer(Job& job, uint32_t index) {
  const auto at = speakers_.find({job.id, index});
  Speaker& speaker = at->second;
  AnswerEnd event;
  event.answer = index;
  event.text = speaker.answer.finish();
  event.finish_reason = speaker.answer.finish_reason();
  event.n_tokens = static_cast<uint32_t>(speaker.answer.ids().size());
  event.milliseconds = 1e3 * seconds_between(speaker.first_token, speaker.last_token);
  ++(event.finish_reason == "stop" ? metrics_.outcomes.stop : metrics_.outcomes.length);
  keep(job, speaker);
  scheduler_.remove(at->first);
  speakers_.erase(at);
  job.sink(std::move(event));
  if (--job.n_open == 0) end(job);
}

// The end of an answer is where its conversation may go on, now and in a later run.
void EngineLoop::keep(const Job& job, Speaker& speaker) {
  const uint32_t length = speaker.sequence.length();
  if (length == 0) return;
  speaker.sequence.mark(length);
  if (!job.request.remember) return;
  std::vector<uint32_t> points = {length};
  if (job.n_prompt() < length) points.insert(points.begin(), job.n_prompt());
  kept_.remember(job.request.name_space, prompt_keys(std::span(speaker.tokens).first(length)),
                 std::move(points));
}

void EngineLoop::embed(Job& job, std::span<const float> hidden) {
  Result<std::vector<float>> values = unit_vector(hidden);
  if (!values.ok()) return fail(job, values.error());
  ++metrics_.outcomes.embedding;
  job.sink(EmbeddingEvent{std::move(values.value())});
  end(job);
}

void EngineLoop::fail(Job& job, const Error& error) {
  ++metrics_.outcomes.failed;
  job.sink(RequestFailure{error});
  forget(job);
}

void EngineLoop::end(Job& job) {
  metrics_.end_to_end.observe(seconds_between(job.submitted, ServeClock::now()));
  job.sink(RequestEnd{job.n_prompt(), job.n_cached, job.prompt_milliseconds});
  forget(job);
}

ServiceStats EngineLoop::stats() const {
  ServiceStats stats;
  stats.metrics = metrics_;
  stats.running = scheduler_.n_running();
  stats.waiting = static_cast<uint32_t>(scheduler_.tasks().size()) - stats.running;
  for (const auto& [id, task] : scheduler_.tasks()) {
    const Job& job = *jobs_.at(id.request);
    const size_t n_answered = speakers_.at(id).answer.ids().size();
    stats.sequences.push_back({id.request, id.answer, task.running, job.n_prompt(), job.n_cached,
                               task.n_held, static_cast<uint32_t>(n_answered),
                               job.request.embedding});
  }
  const Pool& pool = engine_.pool();
  for (size_t g = 0; g < pool.n_groups(); ++g) {
    const uint64_t page = pool.group(g).layout.page_bytes();
    stats.groups.push_back({pool.used_pages(g) * page, pool.cached_pages(g) * page});
  }
  stats.committed_bytes = pool.committed_bytes();
  stats.budget_bytes = pool.budget_bytes();
  const PrefixTree& prefixes = engine_.prefixes();
  stats.evicted_pages = prefixes.stats().evicted_pages;
  stats.evicted_points = prefixes.stats().evicted_points;
  stats.resume_points = prefixes.n_points();
  return stats;
}

}  // namespace hf2q
