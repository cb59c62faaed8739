#pragma once
// HTTP/1.1 on TCP: a few threads, any number of connections, one request of a connection at a time.
// Bodies, headers and the time for both are bounded; a client that goes away is noticed at once.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "serve/http.h"

namespace hf2q {

struct HttpServerOptions {
  using Milliseconds = std::chrono::milliseconds;

  std::string host = "127.0.0.1";  // an address, or a name
  uint16_t port = 8080;            // 0: one that is free
  size_t n_threads = 4;
  size_t max_connections = 512;  // more wait until one ends
  size_t max_header_bytes = size_t{32} << 10;
  size_t max_body_bytes = size_t{16} << 20;
  size_t max_unsent_bytes = size_t{8} << 20;  // of a stream: beyond them the connection is closed
  Milliseconds idle_time{75'000};             // before a request begins
  Milliseconds header_time{10'000};           // from its first byte on
  Milliseconds body_time{60'000};             // from the end of the header on
  Milliseconds stall_time{60'000};            // without a byte that the client takes
  Milliseconds ping_time{15'000};             // between signs of life of a stream
  Milliseconds linger_time{5'000};            // for what is still sent behind an early answer
};

struct HttpLogEntry {
  std::string_view id;
  std::string_view client;  // address
  std::string_view method;
  std::string_view path;  // without the query
  int status = 0;         // 0: the client left before there was one
  uint64_t sent_bytes = 0;
  double milliseconds = 0;                                   // from the end of the header on
  bool left_early = false;                                   // the client did not wait for the end
  std::vector<std::pair<std::string_view, uint64_t>> notes;  // HttpExchange::note
};

// Called by the server's threads, several at a time.
struct HttpHooks {
  HttpHandler handle;
  // With the header alone: a reply that refuses the request, whose body is not read then.
  std::function<std::optional<HttpReply>(const HttpRequest& head)> refuse;
  // Further headers of every answer to this request.
  std::function<HttpHeaders(const HttpRequest& head)> headers;
  std::function<void(const HttpLogEntry& entry)> log;
};

// Exchanges may be kept by others after stop(), but not longer than the server.
class HttpServer {
 public:
  // Listens when it returns. kInvalidArgument: no such host; kIo: the address is taken or not ours;
  // kOutOfMemory: the system gives no thread.
  static Result<std::unique_ptr<HttpServer>> start(const HttpServerOptions& options,
                                                   HttpHooks hooks);
  virtual ~HttpServer() = default;

  virtual uint16_t port() const = 0;
  // Takes no connection any more, waits at most `patience` for answers in work, then ends all.
  // Not from one of its threads. Hooks are not called after it.
  virtual void stop(std::chrono::milliseconds patience) = 0;
};

}  // namespace hf2q
