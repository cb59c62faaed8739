#include "serve/request_group.h"

#include <utility>

namespace hf2q {

ApiError rejection_error(const Rejection& rejection) {
  using Kind = Rejection::Kind;
  if (rejection.kind == Kind::kInvalid) {
    return api_error({ErrorCode::kInvalidArgument, rejection.message});
  }
  ApiError error = {.message = rejection.message};
  if (rejection.kind == Kind::kContext) {
    error.type = "exceed_context_size_error";
    error.numbers = {{"n_prompt_tokens", rejection.n_prompt_tokens}, {"n_ctx", rejection.n_ctx}};
    return error;
  }
  error.status = 503;
  error.type = "unavailable_error";
  if (rejection.kind == Kind::kQueueFull) error.headers = {{"Retry-After", "1"}};
  return error;
}

RequestGroup::RequestGroup(Service& service, std::shared_ptr<HttpExchange> exchange,
                           std::vector<ServeRequest> requests, RequestGroupHooks hooks)
    : service_(service),
      exchange_(std::move(exchange)),
      requests_(std::move(requests)),
      hooks_(std::move(hooks)) {}

void RequestGroup::start(Service& service, const std::shared_ptr<HttpExchange>& exchange,
                         std::vector<ServeRequest> requests, RequestGroupHooks hooks) {
  const std::shared_ptr<RequestGroup> group(
      new RequestGroup(service, exchange, std::move(requests), std::move(hooks)));
  exchange->on_close([group] { group->give_up(); });
  group->submit_more();
  if (!group->over_ && group->hooks_.on_taken) group->hooks_.on_taken();
}

void RequestGroup::submit_more() {
  while (!over_ && next_ < requests_.size() && open_.size() < service_.options().max_running) {
    // The engine's thread only posts: what an event means is worked out here.
    const EventSink sink = [group = shared_from_this(), index = next_](ServeEvent event) {
      group->exchange_->post(
          [group, index, event = std::move(event)]() mutable { group->on_event(index, event); });
    };
    const Submission submission = service_.submit(requests_[next_], sink);
    if (const auto* id = std::get_if<RequestId>(&submission)) {
      open_.emplace(next_++, *id);
      continue;
    }
    const auto& rejection = std::get<Rejection>(submission);
    // Once some were taken the others wait with them.
    if (rejection.kind == Rejection::Kind::kQueueFull && !open_.empty()) return;
    return fail(rejection_error(rejection));
  }
}

void RequestGroup::on_event(size_t index, ServeEvent& event) {
  if (over_) return;
  if (const auto* failure = std::get_if<RequestFailure>(&event)) {
    open_.erase(index);
    return fail(api_error(failure->error));
  }
  hooks_.on_event(index, event);
  if (over_ || !std::holds_alternative<RequestEnd>(event)) return;
  open_.erase(index);
  submit_more();
  if (over_ || !open_.empty()) return;
  over_ = true;
  hooks_.on_end();
}

void RequestGroup::fail(const ApiError& error) {
  give_up();
  hooks_.on_failure(error);
}

void RequestGroup::give_up() {
  over_ = true;
  for (const auto& [index, id] : open_) service_.cancel(id);
  open_.clear();
}

}  // namespace hf2q
