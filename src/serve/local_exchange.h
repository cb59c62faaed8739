#pragma once
// Exchanges without a network: for `batch`, whose thread runs the work of many at a time.

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "serve/http.h"

namespace hf2q {

// Work from any thread, done by the one that calls run_one().
class WorkQueue {
 public:
  void post(std::function<void()> work);
  // Waits for work and does the oldest.
  void run_one();

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<std::function<void()>> work_;
};

class LocalExchange : public HttpExchange {
 public:
  // `queue` outlives it.
  explicit LocalExchange(WorkQueue& queue) : queue_(queue) {}

  void post(std::function<void()> work) override { queue_.post(std::move(work)); }
  void on_close(std::function<void()> closed) override { closed_ = std::move(closed); }
  void send(HttpReply reply) override;
  void begin_stream(HttpHeaders headers) override { reply_.headers = std::move(headers); }
  void event(std::string data) override { events_.push_back(std::move(data)); }
  void end() override { finish(); }
  void fail(HttpReply reply) override;
  void note(std::string_view /*name*/, uint64_t /*value*/) override {}

  // As if the client had left.
  void close();

  // The answer is whole.
  bool done() const { return done_; }
  const HttpReply& reply() const { return reply_; }
  // Of a stream.
  const std::vector<std::string>& events() const { return events_; }

 private:
  void finish();

  WorkQueue& queue_;
  std::function<void()> closed_;
  HttpReply reply_;
  std::vector<std::string> events_;
  bool done_ = false;
};

}  // namespace hf2q
