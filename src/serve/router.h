#pragma once
// Which request goes to which route, and which are refused before their body is read.

#include <atomic>
#include <optional>

#include "serve/api.h"
#include "serve/http.h"

namespace hf2q {

// Any thread.
class Router {
 public:
  explicit Router(const ApiOptions& options) : options_(options) {}

  // Until then every route but /livez answers 503: the model is being loaded. `api` outlives the
  // requests.
  void set_api(const Api* api) { api_ = api; }

  // From the header: 404, 405 with Allow, 401, 415, or 503 while there is no api.
  std::optional<HttpReply> refuse(const HttpRequest& head) const;
  // Of every answer: CORS, for the origins that were asked for.
  HttpHeaders headers(const HttpRequest& head) const;
  // A request that refuse() has let pass.
  void handle(const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange) const;

 private:
  const ApiOptions options_;
  std::atomic<const Api*> api_ = nullptr;
};

}  // namespace hf2q
