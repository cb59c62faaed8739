// GET /health /readyz /v1/models /v1/models/ID /props /slots /metrics

#include <charconv>

#include "serve/metrics_text.h"
#include "serve/routes.h"
#include "serve/state_reply.h"

namespace hf2q {
namespace {

void send_json(const std::shared_ptr<HttpExchange>& exchange, const nlohmann::ordered_json& json) {
  exchange->send({.body = json_text(json)});
}

// "a/b" of "a%2Fb"; a % without two hexadecimal digits stays.
std::string unescaped(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const char* begin = text.data() + i + 1;
    const bool escaped = text[i] == '%' && i + 2 < text.size() &&
                         std::from_chars(begin, begin + 2, value, 16).ptr == begin + 2;
    result += escaped ? static_cast<char>(value) : text[i];
    if (escaped) i += 2;
  }
  return result;
}

}  // namespace

void handle_health(const Api& /*api*/, const HttpRequest& /*request*/,
                   const std::shared_ptr<HttpExchange>& exchange) {
  exchange->send({.body = R"({"status":"ok"})"});
}

void handle_ready(const Api& api, const HttpRequest& /*request*/,
                  const std::shared_ptr<HttpExchange>& exchange) {
  if (api.service.ready()) return exchange->send({.body = R"({"status":"ok"})"});
  exchange->send(error_reply(
      {.status = 503, .type = "unavailable_error", .message = "the server is shutting down"}));
}

void handle_models(const Api& api, const HttpRequest& /*request*/,
                   const std::shared_ptr<HttpExchange>& exchange) {
  send_json(exchange, {{"object", "list"}, {"data", {model_json(api)}}});
}

void handle_model(const Api& api, const HttpRequest& request,
                  const std::shared_ptr<HttpExchange>& exchange) {
  const std::string id = unescaped(path_of(request).substr(std::string_view("/v1/models/").size()));
  if (id == api.options.model_name) return send_json(exchange, model_json(api));
  exchange->send(error_reply({.status = 404,
                              .type = "not_found_error",
                              .message = fmt::format("model: {} expected, found {}",
                                                     api.options.model_name, id.substr(0, 200)),
                              .param = "model"}));
}

void handle_props(const Api& api, const HttpRequest& /*request*/,
                  const std::shared_ptr<HttpExchange>& exchange) {
  send_json(exchange, props_json(api));
}

void handle_slots(const Api& api, const HttpRequest& /*request*/,
                  const std::shared_ptr<HttpExchange>& exchange) {
  send_json(exchange, slots_json(api.service.stats()));
}

void handle_metrics(const Api& api, const HttpRequest& /*request*/,
                    const std::shared_ptr<HttpExchange>& exchange) {
  exchange->send({.body = metrics_text(metrics_facts(api), api.service.stats()),
                  .content_type = "text/plain; version=0.0.4; charset=utf-8"});
}

}  // namespace hf2q
