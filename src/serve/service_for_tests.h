#pragma once
// A client of a Service, for tests, and what a request gets alone.

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/generate.h"
#include "engine/test_engine.h"
#include "serve/service.h"

namespace hf2q::testing_support {

struct AnswerSeen {
  std::vector<int32_t> tokens;
  std::string text;
  std::string finish_reason;
  uint32_t n_tokens = 0;  // as the end says
  size_t n_log_probs = 0;

  bool operator==(const AnswerSeen&) const = default;
};

// Collects the events of one request.
class Client {
 public:
  EventSink sink() {
    return [state = state_](ServeEvent event) { state->take(std::move(event)); };
  }
  // Returns when the last event has come.
  void wait() {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [this] { return state_->end || state_->failure; });
  }
  void wait_for_tokens(size_t n) {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [&] { return state_->n_tokens >= n; });
  }
  size_t n_tokens() const {
    const std::lock_guard lock(state_->mutex);
    return state_->n_tokens;
  }
  // After wait().
  const std::map<uint32_t, AnswerSeen>& answers() const { return state_->answers; }
  const AnswerSeen& answer() const { return state_->answers.at(0); }
  const std::vector<PromptProgress>& progress() const { return state_->progress; }
  const std::vector<float>& embedding() const { return state_->embedding; }
  const std::optional<RequestEnd>& end() const { return state_->end; }
  std::string failure() const { return state_->failure ? state_->failure->message : ""; }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<uint32_t, AnswerSeen> answers;
    std::vector<PromptProgress> progress;
    std::vector<float> embedding;
    std::optional<RequestEnd> end;
    std::optional<Error> failure;
    size_t n_tokens = 0;

    void take(ServeEvent event) {
      const std::lock_guard lock(mutex);
      EXPECT_FALSE(end || failure) << "an event behind the last one";
      std::visit([this](auto& one) { on(one); }, event);
      changed.notify_all();
    }
    void on(PromptProgress& event) { progress.push_back(event); }
    void on(TokenEvent& event) {
      AnswerSeen& answer = answers[event.answer];
      EXPECT_EQ(answer.finish_reason, "") << "a token behind the end";
      answer.tokens.push_back(event.token);
      answer.text += event.text;
      if (event.log_probs) ++answer.n_log_probs;
      ++n_tokens;
    }
    void on(AnswerEnd& event) {
      AnswerSeen& answer = answers[event.answer];
      answer.text += event.text;
      answer.finish_reason = event.finish_reason;
      answer.n_tokens = event.n_tokens;
    }
    void on(EmbeddingEvent& event) { embedding = std::move(event.values); }
    void on(RequestEnd& event) { end = event; }
    void on(RequestFailure& event) { failure = event.error; }
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// Of an engine that serves nobody else. The first answer only.
inline AnswerSeen alone(Engine& engine, const ServeRequest& request) {
  GenerateOptions options;
  options.sampling = request.sampling;
  options.n_predict = request.max_tokens;
  options.stops = request.stops;
  options.ignore_eos = request.ignore_eos;
  options.grammar = request.grammar;
  Sequence sequence = engine.new_sequence();
  const Generation generation = value_of(generate(engine, sequence, request.prompt, options));
  const auto n_tokens = static_cast<uint32_t>(generation.token_ids.size());
  return {generation.token_ids, generation.text, std::string(generation.finish_reason), n_tokens,
          request.n_top_log_probs ? n_tokens : 0};
}

inline RequestId submit(Service& service, const ServeRequest& request, Client& client) {
  const Submission submission = service.submit(request, client.sink());
  const RequestId* id = std::get_if<RequestId>(&submission);
  EXPECT_NE(id, nullptr);
  return id == nullptr ? 0 : *id;
}

// Live pages of sequences; 0 when nobody is served.
inline uint64_t live_bytes(Service& service) {
  uint64_t bytes = 0;
  service.with_engine(
      [&](Engine& engine) { bytes = engine.pool().used_bytes() - engine.pool().cached_bytes(); });
  return bytes;
}

// After everything was given up.
inline uint64_t used_bytes_after_clear(Service& service) {
  uint64_t bytes = 0;
  service.with_engine([&](Engine& engine) {
    engine.prefixes().clear();
    bytes = engine.pool().used_bytes();
  });
  return bytes;
}

}  // namespace hf2q::testing_support
