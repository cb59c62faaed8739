#include "serve/router.h"

#include <algorithm>
#include <utility>

#include "serve/api_error.h"
#include "serve/routes.h"

namespace hf2q {
namespace {

struct RouteRow {
  std::string_view path;  // ends in '/': all paths below it
  std::string_view method;
  Route route;
  bool open = false;  // needs no key
};

constexpr std::string_view kLive = "/livez";
constexpr RouteRow kRoutes[] = {
    {"/v1/chat/completions", "POST", handle_chat},
    {"/v1/completions", "POST", handle_completions},
    {"/v1/embeddings", "POST", handle_embeddings},
    {"/v1/models", "GET", handle_models},
    {"/v1/models/", "GET", handle_model},
    {"/tokenize", "POST", handle_tokenize},
    {"/detokenize", "POST", handle_detokenize},
    {"/apply-template", "POST", handle_apply_template},
    {"/props", "GET", handle_props},
    {"/slots", "GET", handle_slots},
    {"/metrics", "GET", handle_metrics},
    {"/health", "GET", handle_health, true},
    {"/readyz", "GET", handle_ready, true},
    {kLive, "GET", nullptr, true},  // answered without an api
};

const RouteRow* row_of(std::string_view path) {
  const auto* const found = std::ranges::find_if(kRoutes, [&](const RouteRow& row) {
    return row.path.ends_with('/') ? path.starts_with(row.path) : path == row.path;
  });
  return found == std::end(kRoutes) ? nullptr : found;
}

bool allows(const RouteRow& row, std::string_view method) {
  return method == row.method || method == "OPTIONS" || (method == "HEAD" && row.method == "GET");
}

std::string_view methods_of(const RouteRow& row) {
  return row.method == "GET" ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
}

// A page of another site may send a form or plain text without asking; what is sent without a type
// comes from no page's form.
bool is_json_type(std::string_view type) {
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ')) type.remove_suffix(1);
  return type.empty() || type == "application/json" || type.ends_with("+json");
}

ApiError loading() {
  return {.status = 503, .type = "unavailable_error", .message = "the model is being loaded"};
}

}  // namespace

std::optional<HttpReply> Router::refuse(const HttpRequest& head) const {
  const std::string_view path = path_of(head);
  const RouteRow* row = row_of(path);
  if (head.method == "OPTIONS" && row != nullptr) return std::nullopt;
  const bool open = options_.keys.empty() || (row != nullptr && row->open);
  if (!open && !is_known_key(options_.keys, bearer_key(head))) {
    return error_reply({.status = 401,
                        .type = "authentication_error",
                        .message = "Authorization: a valid key expected behind Bearer",
                        .headers = {{"WWW-Authenticate", "Bearer"}}});
  }
  if (row == nullptr) {
    return error_reply({.status = 404,
                        .type = "not_found_error",
                        .message = fmt::format("{}: no such path", path.substr(0, 200))});
  }
  if (!allows(*row, head.method)) {
    const std::string_view allowed = methods_of(*row);
    return error_reply({.status = 405,
                        .message = fmt::format("{}: one of {} expected, found {}", path, allowed,
                                               head.method.substr(0, 40)),
                        .headers = {{"Allow", std::string(allowed)}}});
  }
  if (row->method == "POST" && !is_json_type(header_of(head, "Content-Type"))) {
    return error_reply({.status = 415, .message = "Content-Type: application/json expected"});
  }
  if (api_ == nullptr && row->path != kLive) return error_reply(loading());
  return std::nullopt;
}

HttpHeaders Router::headers(const HttpRequest& head) const {
  const std::string_view origin = header_of(head, "Origin");
  if (origin.empty() || options_.origins.empty()) return {};
  HttpHeaders headers = {{"Vary", "Origin"}};
  const bool known = std::ranges::any_of(
      options_.origins, [&](const std::string& one) { return one == "*" || one == origin; });
  if (!known) return headers;
  headers.emplace_back("Access-Control-Allow-Origin", std::string(origin));
  headers.emplace_back("Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
  if (head.method != "OPTIONS") return headers;
  headers.emplace_back("Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS");
  headers.emplace_back("Access-Control-Allow-Headers",
                       std::string(header_of(head, "Access-Control-Request-Headers")));
  headers.emplace_back("Access-Control-Max-Age", "86400");
  return headers;
}

void Router::handle(const HttpRequest& request,
                    const std::shared_ptr<HttpExchange>& exchange) const {
  const RouteRow& row = *row_of(path_of(request));
  if (request.method == "OPTIONS") {
    return exchange->send({.status = 204, .headers = {{"Allow", std::string(methods_of(row))}}});
  }
  if (row.path == kLive) return exchange->send({.body = R"({"status":"ok"})"});
  row.route(*api_, request, exchange);
}

}  // namespace hf2q
