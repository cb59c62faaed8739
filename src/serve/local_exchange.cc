#include "serve/local_exchange.h"

namespace hf2q {

void WorkQueue::post(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  work_.push_back(std::move(work));
  filled_.notify_one();  // locked: whoever does the last work may end the queue
}

void WorkQueue::run_one() {
  std::function<void()> work;
  {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [this] { return !work_.empty(); });
    work = std::move(work_.front());
    work_.pop_front();
  }
  work();
}

void LocalExchange::send(HttpReply reply) {
  reply_ = std::move(reply);
  finish();
}

void LocalExchange::fail(HttpReply reply) {
  if (events_.empty()) return send(std::move(reply));
  event(std::move(reply.body));
  finish();
}

void LocalExchange::close() {
  if (const auto closed = std::exchange(closed_, nullptr)) closed();
}

void LocalExchange::finish() {
  done_ = true;
  closed_ = nullptr;
}

}  // namespace hf2q
