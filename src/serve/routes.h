#pragma once
// One function per route: it answers the request, now or in work that it posts to the exchange.

#include <memory>

#include "serve/api.h"
#include "serve/http.h"

namespace hf2q {

using Route = void (*)(const Api& api, const HttpRequest& request,
                       const std::shared_ptr<HttpExchange>& exchange);

void handle_chat(const Api& api, const HttpRequest& request,
                 const std::shared_ptr<HttpExchange>& exchange);
void handle_completions(const Api& api, const HttpRequest& request,
                        const std::shared_ptr<HttpExchange>& exchange);
void handle_embeddings(const Api& api, const HttpRequest& request,
                       const std::shared_ptr<HttpExchange>& exchange);
void handle_tokenize(const Api& api, const HttpRequest& request,
                     const std::shared_ptr<HttpExchange>& exchange);
void handle_detokenize(const Api& api, const HttpRequest& request,
                       const std::shared_ptr<HttpExchange>& exchange);
void handle_apply_template(const Api& api, const HttpRequest& request,
                           const std::shared_ptr<HttpExchange>& exchange);
void handle_health(const Api& api, const HttpRequest& request,
                   const std::shared_ptr<HttpExchange>& exchange);
void handle_ready(const Api& api, const HttpRequest& request,
                  const std::shared_ptr<HttpExchange>& exchange);
void handle_models(const Api& api, const HttpRequest& request,
                   const std::shared_ptr<HttpExchange>& exchange);
void handle_model(const Api& api, const HttpRequest& request,
                  const std::shared_ptr<HttpExchange>& exchange);
void handle_props(const Api& api, const HttpRequest& request,
                  const std::shared_ptr<HttpExchange>& exchange);
void handle_slots(const Api& api, const HttpRequest& request,
                  const std::shared_ptr<HttpExchange>& exchange);
void handle_metrics(const Api& api, const HttpRequest& request,
                    const std::shared_ptr<HttpExchange>& exchange);

}  // namespace hf2q
