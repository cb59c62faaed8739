#pragma once
// The requests that answer one exchange: n prompts, or n inputs to embed. At most as many of them
// are open as run at once; all are given up when the client leaves or one fails.

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "serve/api_error.h"
#include "serve/http.h"
#include "serve/request.h"
#include "serve/service.h"

namespace hf2q {

// 400, type exceed_context_size_error with both numbers, for what is too long; 503 while no request
// is taken, with Retry-After where the queue is full; 400 naming the field for the rest.
ApiError rejection_error(const Rejection& rejection);

// Called in work of the exchange.
struct RequestGroupHooks {
  // Every request has been taken, or will be when others end. Called before all others, once.
  std::function<void()> on_taken;
  // Events of request `index`; RequestEnd is its last one.
  std::function<void(size_t index, ServeEvent& event)> on_event;
  // All requests have ended.
  std::function<void()> on_end;
  // One was not taken, or failed. The last call.
  std::function<void(const ApiError& error)> on_failure;
};

class RequestGroup : public std::enable_shared_from_this<RequestGroup> {
 public:
  // To be called by a handler, or in posted work. `service` lives as long as the exchange.
  static void start(Service& service, const std::shared_ptr<HttpExchange>& exchange,
                    std::vector<ServeRequest> requests, RequestGroupHooks hooks);

 private:
  RequestGroup(Service& service, std::shared_ptr<HttpExchange> exchange,
               std::vector<ServeRequest> requests, RequestGroupHooks hooks);
  void submit_more();
  void on_event(size_t index, ServeEvent& event);
  void fail(const ApiError& error);
  void give_up();

  Service& service_;
  std::shared_ptr<HttpExchange> exchange_;
  std::vector<ServeRequest> requests_;
  RequestGroupHooks hooks_;
  size_t next_ = 0;                   // to be submitted
  std::map<size_t, RequestId> open_;  // by index
  bool over_ = false;
};

}  // namespace hf2q
