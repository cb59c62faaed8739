#pragma once
// HTTP as the handlers see it: a request that has arrived whole, and an exchange to answer it on.
// Sockets, threads and limits are http_server.h's.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hf2q {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;  // "GET"
  std::string target;  // "/v1/models?x=1"
  HttpHeaders headers;
  std::string body;
  std::string id;  // the client's X-Request-Id, or one of ours
};

// The first header of this name, in any case of letters; "" where there is none.
std::string_view header_of(const HttpRequest& request, std::string_view name);
// The target without its query.
std::string_view path_of(const HttpRequest& request);

struct HttpReply {
  int status = 200;
  std::string body{};
  std::string content_type = "application/json";
  HttpHeaders headers{};
};

// One request's answer: a reply, or a stream of server-sent events. All functions but post() are
// called in posted work only, or by the handler before it returns.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  // From any thread: runs `work` later, in order, and never beside other work of this exchange.
  virtual void post(std::function<void()> work) = 0;
  // Called once when nobody listens any more and end() or send() has not been called.
  virtual void on_close(std::function<void()> closed) = 0;

  virtual void send(HttpReply reply) = 0;
  // The answer will be a stream. Comments keep it alive from now on; the head goes out with the
  // first event or comment.
  virtual void begin_stream(HttpHeaders headers) = 0;
  // One event, "data: DATA"; DATA has no line break.
  virtual void event(std::string data) = 0;
  virtual void end() = 0;
  // A number for the log; `name` is a literal.
  virtual void note(std::string_view name, uint64_t value) = 0;
  // Ends with an error: as the reply, or as the last event where the head has gone out.
  virtual void fail(HttpReply reply) = 0;
};

using HttpHandler =
    std::function<void(const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange)>;

}  // namespace hf2q
