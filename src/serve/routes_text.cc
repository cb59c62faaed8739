// POST /tokenize /detokenize /apply-template

#include "engine/prompt.h"
#include "serve/api_error.h"
#include "serve/reply_parts.h"
#include "serve/routes.h"

namespace hf2q {
namespace {

using nlohmann::ordered_json;

// The text of a piece, or its bytes where these are no UTF-8 of their own.
ordered_json piece_json(const Tokenizer& tokenizer, int32_t id) {
  const std::string bytes = token_bytes(tokenizer, id);
  if (bytes == tokenizer.token_text(id)) return {{"id", id}, {"piece", bytes}};
  return {{"id", id}, {"piece", ordered_json::array({static_cast<uint8_t>(bytes.front())})}};
}

Result<ordered_json> tokenize(const Api& api, const HttpRequest& request) {
  TRY(body, parse_body(request.body));
  TRY(asked, parse_tokenize_request(body));
  const std::vector<int32_t> ids = api.tokenizer().encode(
      asked.content, {.add_bos = asked.add_special, .parse_special = asked.parse_special});
  ordered_json tokens = ordered_json::array();
  for (const int32_t id : ids) {
    tokens.push_back(asked.with_pieces ? piece_json(api.tokenizer(), id) : ordered_json(id));
  }
  return ordered_json{{"tokens", std::move(tokens)}};
}

Result<ordered_json> detokenize(const Api& api, const HttpRequest& request) {
  TRY(body, parse_body(request.body));
  TRY(ids, parse_detokenize_request(body, api.tokenizer().n_tokens()));
  return ordered_json{{"content", api.tokenizer().decode(ids)}};
}

Result<ordered_json> apply_template(const Api& api, const HttpRequest& request) {
  TRY(body, parse_body(request.body));
  TRY(asked, parse_conversation(body, api.defaults));
  TRY(prompt, api.jinja.render(asked.messages, asked.tools, asked.options));
  return ordered_json{{"prompt", std::move(prompt)}};
}

void send_result(HttpExchange& exchange, const Result<ordered_json>& result) {
  if (!result.ok()) return exchange.send(error_reply(result.error()));
  exchange.send({.body = json_text(result.value())});
}

}  // namespace

void handle_tokenize(const Api& api, const HttpRequest& request,
                     const std::shared_ptr<HttpExchange>& exchange) {
  send_result(*exchange, tokenize(api, request));
}

void handle_detokenize(const Api& api, const HttpRequest& request,
                       const std::shared_ptr<HttpExchange>& exchange) {
  send_result(*exchange, detokenize(api, request));
}

void handle_apply_template(const Api& api, const HttpRequest& request,
                           const std::shared_ptr<HttpExchange>& exchange) {
  send_result(*exchange, apply_template(api, request));
}

}  // namespace hf2q
