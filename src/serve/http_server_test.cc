#include "serve/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "serve/http_text.h"
#include "serve/socket_for_tests.h"
#include "support/value_of.h"

namespace hf2q {
namespace {

using std::chrono::milliseconds;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using testing_support::RawClient;
using testing_support::value_of;

// RFC 9112, 7.1: a chunk is its size in hexadecimal, CRLF, its bytes, CRLF.
TEST(HttpText, ChunksHeadsAndIds) {
  EXPECT_EQ(chunk_text("Mozilla Developer Network "), "1a\r\nMozilla Developer Network \r\n");
  EXPECT_EQ(chunk_text(""), "0\r\n\r\n");
  EXPECT_EQ(head_text({.status = 404, .content_type = "a/b", .length = 5}, {{"X", "y\r\nZ: 1"}}),
            "HTTP/1.1 404 Not Found\r\nContent-Type: a/b\r\nX: yZ: 1\r\nContent-Length: 5\r\n"
            "Connection: keep-alive\r\n\r\n");
  EXPECT_EQ(head_text({.status = 204, .keep_alive = false}, {}),
            "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(usable_request_id("a-1"), "a-1");
  for (const std::string bad : {"", "a b", "a\nb", "\xC3\xA9"}) {
    EXPECT_EQ(usable_request_id(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(usable_request_id(std::string(129, 'a')), std::nullopt);
}

// What the handler was given, and whether clients have left.
struct Seen {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<HttpExchange>> kept;  // of GET /keep, for the test to answer
  int closed = 0;
  std::vector<std::string> log;

  template <class Condition>
  bool wait(Condition condition) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(20), condition);
  }
};

class HttpServerTest : public testing::Test {
 protected:
  void start(HttpServerOptions options = {}) {
    options.port = 0;
    options.n_threads = 2;
    HttpHooks hooks;
    hooks.handle = [this](const HttpRequest& request, const std::shared_ptr<HttpExchange>& out) {
      handle(request, out);
    };
    hooks.refuse = [](const HttpRequest& head) {
      return path_of(head) == "/refused" ? std::optional(HttpReply{401, "{\"no\":1}"})
                                         : std::nullopt;
    };
    hooks.headers = [](const HttpRequest&) { return HttpHeaders{{"X-Every", "one"}}; };
    hooks.log = [this](const HttpLogEntry& entry) {
      const std::lock_guard lock(seen_.mutex);
      seen_.log.push_back(fmt::format("{} {} {} {}", entry.method, entry.path, entry.status,
                                      entry.left_early ? "left" : "whole"));
      seen_.changed.notify_all();
    };
    server_ = value_of(HttpServer::start(options, std::move(hooks)));
  }
  void TearDown() override {
    if (server_) server_->stop(milliseconds(0));
    seen_.kept.clear();
  }

  void handle(const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange) {
    if (path_of(request) == "/throw") throw std::runtime_error("a library's");
    if (path_of(request) != "/keep") {
      return exchange->send({.body = request.method + " " + request.target + " " + request.body,
                             .content_type = "text/plain"});
    }
    exchange->on_close([this] {
      const std::lock_guard lock(seen_.mutex);
      ++seen_.closed;
      seen_.changed.notify_all();
    });
    const std::lock_guard lock(seen_.mutex);
    seen_.kept.push_back(exchange);
    seen_.changed.notify_all();
  }
  // The exchange of the next GET /keep.
  std::shared_ptr<HttpExchange> kept() {
    EXPECT_TRUE(seen_.wait([this] { return !seen_.kept.empty(); }));
    const std::lock_guard lock(seen_.mutex);
    std::shared_ptr<HttpExchange> exchange = seen_.kept.front();
    seen_.kept.pop_front();
    return exchange;
  }
  std::string answer_of(std::string_view request, std::string_view end) {
    RawClient client(server_->port());
    client.send(request);
    return client.read_until(end);
  }

  Seen seen_;
  std::unique_ptr<HttpServer> server_;
};

constexpr std::string_view kKeep = "GET /keep HTTP/1.1\r\nHost: a\r\nX-Request-Id: r1\r\n\r\n";

TEST_F(HttpServerTest, RequestsOfOneConnectionOneAfterTheOther) {
  start();
  RawClient client(server_->port());
  client.send("GET /a?b HTTP/1.1\r\nHost: a\r\nX-Request-Id: mine\r\n\r\n");
  EXPECT_EQ(client.read_until("GET /a?b "),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-Every: one\r\nX-Request-Id: mine\r\n"
            "Content-Length: 9\r\nConnection: keep-alive\r\n\r\nGET /a?b ");
  // A body in two pieces, then three requests at once, one of them in chunks.
  client.send("POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe");
  client.send("llo");
  EXPECT_THAT(client.read_until("POST /b hello"), HasSubstr("Content-Length: 13\r\n"));
  client.send(
      "GET /c HTTP/1.1\r\nHost: a\r\n\r\n"
      "POST /d HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
      "chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n"
      "HEAD /e HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(client.read_until("GET /c "), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(client.read_until("POST /d abcd"), StartsWith("HTTP/1.1 200"));
  const std::string head = client.read_to_end();
  EXPECT_THAT(head, HasSubstr("Content-Length: 8\r\nConnection: close\r\n"));
  EXPECT_THAT(head, EndsWith("\r\n\r\n"));
}

TEST_F(HttpServerTest, StreamsInChunksAndInPlainForHttp10) {
  start();
  RawClient client(server_->port());
  client.send(kKeep);
  auto exchange = kept();
  exchange->post([exchange] {
    exchange->begin_stream({{"Cache-Control", "no-cache"}});
    exchange->event("{}");
    exchange->event("[DONE]");
    exchange->end();
    exchange->event("behind the end");
  });
  EXPECT_EQ(
      client.read_until("0\r\n\r\n"),
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Every: one\r\n"
      "X-Request-Id: r1\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n"
      "Connection: keep-alive\r\n\r\na\r\ndata: {}\n\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
  client.send("GET /keep HTTP/1.0\r\n\r\n");
  exchange = kept();
  exchange->post([exchange] {
    exchange->begin_stream({});
    exchange->event("{}");
    exchange->fail({500, "{\"error\":1}"});
  });
  EXPECT_THAT(client.read_to_end(), EndsWith("\r\n\r\ndata: {}\n\ndata: {\"error\":1}\n\n"));
}

TEST_F(HttpServerTest, AStreamThatFailsBeforeItsFirstEventIsAReply) {
  start();
  RawClient client(server_->port());
  client.send(kKeep);
  const auto exchange = kept();
  exchange->post([exchange] {
    exchange->begin_stream({});
    exchange->fail({503, "{}"});
  });
  EXPECT_THAT(client.read_until("{}"), StartsWith("HTTP/1.1 503 Service Unavailable\r\n"));
  EXPECT_THAT(answer_of("GET /throw HTTP/1.1\r\n\r\n", "}}"), StartsWith("HTTP/1.1 500"));
}

TEST_F(HttpServerTest, QuietStreamsArePinged) {
  start({.ping_time = milliseconds(30)});
  RawClient client(server_->port());
  client.send(kKeep);
  const auto exchange = kept();
  exchange->post([exchange] { exchange->begin_stream({}); });
  EXPECT_THAT(client.read_until(": ping\n\n"), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_EQ(client.read_until(": ping\n\n"), "\r\n8\r\n: ping\n\n");
}

TEST_F(HttpServerTest, AClientThatLeavesIsNoticed) {
  start();
  for (const bool half : {false, true}) {
    auto client = std::make_unique<RawClient>(server_->port());
    client->send(kKeep);
    const auto exchange = kept();
    half ? client->shut_down_sending() : client.reset();
    EXPECT_TRUE(seen_.wait([&] { return seen_.closed == (half ? 2 : 1); }));
    exchange->post([exchange] { exchange->send({}); });  // nobody listens
  }
  EXPECT_TRUE(seen_.wait([this] { return seen_.log.size() == 2; }));
  EXPECT_EQ(seen_.log.front(), "GET /keep 0 left");
}

TEST_F(HttpServerTest, AStreamThatNobodyReadsIsGivenUp) {
  start({.max_unsent_bytes = 1 << 20});
  RawClient client(server_->port());
  client.send(kKeep);
  const auto exchange = kept();
  exchange->post([exchange] {
    exchange->begin_stream({});
    for (int i = 0; i < 64; ++i) exchange->event(std::string(1 << 20, 'x'));
  });
  EXPECT_TRUE(seen_.wait([this] { return seen_.closed == 1; }));
}

// Both ways of telling a length; and nothing of the body is waited for.
TEST_F(HttpServerTest, TooLargeOrRefusedBodiesAreAnsweredAtOnce) {
  start({.max_body_bytes = 1000});
  RawClient announced(server_->port());
  announced.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 67108864\r\n\r\n");
  EXPECT_THAT(announced.read_until("}}"), StartsWith("HTTP/1.1 413 Content Too Large\r\n"));
  EXPECT_TRUE(announced.send(std::string(1 << 20, 'x')));  // drained, no reset
  EXPECT_EQ(announced.read_to_end(), "");

  RawClient chunks(server_->port());
  chunks.send("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n800\r\n" +
              std::string(2048, 'x'));
  EXPECT_THAT(chunks.read_to_end(), HasSubstr("body: at most 1000 bytes expected"));

  RawClient refused(server_->port());
  refused.send("POST /refused HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\n");
  EXPECT_THAT(refused.read_to_end(), EndsWith("Connection: close\r\n\r\n{\"no\":1}"));
  EXPECT_THAT(answer_of("GET /refused HTTP/1.1\r\n\r\n", "1}"), HasSubstr("keep-alive"));
  // 18446744073709551616 is 2^64.
  for (const std::string length : {"-1", "18446744073709551616", "x"}) {
    EXPECT_THAT(answer_of("POST /a HTTP/1.1\r\nContent-Length: " + length + "\r\n\r\n", "}}"),
                StartsWith("HTTP/1.1 400 Bad Request\r\n"))
        << length;
  }
  EXPECT_THAT(answer_of("POST /a HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n\r\n", "}}"),
              StartsWith("HTTP/1.1 413"));
}

TEST_F(HttpServerTest, WaitingBodiesAreAskedFor) {
  start();
  RawClient client(server_->port());
  client.send("POST /a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("ab");
  EXPECT_THAT(client.read_until("POST /a ab"), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_F(HttpServerTest, OtherBytesAndLongHeadersAreRefused) {
  start({.max_header_bytes = 1000});
  for (const std::string bytes :
       {"hello\r\n\r\n", "GET / HTTP/9\r\n\r\n", "\x16\x03\x01\x02\r\n"}) {
    EXPECT_THAT(answer_of(bytes, "}}"), StartsWith("HTTP/1.1 400 Bad Request\r\n")) << bytes;
  }
  EXPECT_THAT(answer_of("GET / HTTP/1.1\r\nA: " + std::string(2000, 'x') + "\r\n\r\n", "}}"),
              StartsWith("HTTP/1.1 431 Request Header Fields Too Large\r\n"));
  EXPECT_THAT(answer_of("GET /a HTTP/1.1\r\nHost: a\r\n\r\n", "GET /a "),
              StartsWith("HTTP/1.1 200"));
}

// 200 connections that say nothing, and one that says a byte at a time.
TEST_F(HttpServerTest, SlowClientsDoNotKeepOthersAndEnd) {
  start({.header_time = milliseconds(300), .body_time = milliseconds(300)});
  std::deque<RawClient> idle;
  for (int i = 0; i < 200; ++i) idle.emplace_back(server_->port());
  RawClient slow_header(server_->port());
  slow_header.send("GET /a HT");
  RawClient slow_body(server_->port());
  slow_body.send("POST /a HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_THAT(answer_of("GET /a HTTP/1.1\r\n\r\n", "GET /a "), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(slow_header.read_to_end(), StartsWith("HTTP/1.1 408 Request Timeout\r\n"));
  EXPECT_THAT(slow_body.read_to_end(), StartsWith("HTTP/1.1 408 Request Timeout\r\n"));
}

TEST_F(HttpServerTest, MoreConnectionsThanAreHeldWait) {
  start({.max_connections = 2, .idle_time = milliseconds(100)});
  std::deque<RawClient> clients;
  for (int i = 0; i < 6; ++i) clients.emplace_back(server_->port());
  for (RawClient& client : clients) {
    EXPECT_TRUE(client.connected());
    client.send("GET /a HTTP/1.1\r\n\r\n");
  }
  for (RawClient& client : clients) {
    EXPECT_THAT(client.read_until("GET /a "), StartsWith("HTTP/1.1 200 OK\r\n"));
  }
}

TEST_F(HttpServerTest, StopWaitsForAnswersInWork) {
  start();
  RawClient client(server_->port());
  RawClient idle(server_->port());
  client.send(kKeep);
  const auto exchange = kept();
  std::thread stopper([this] { server_->stop(std::chrono::seconds(20)); });
  EXPECT_EQ(idle.read_to_end(), "");
  exchange->post([exchange] { exchange->send({.body = "last"}); });
  EXPECT_THAT(client.read_to_end(), EndsWith("Connection: close\r\n\r\nlast"));
  client.shut_down_sending();
  stopper.join();
  EXPECT_EQ(seen_.log, std::vector<std::string>{"GET /keep 200 whole"});
}

TEST_F(HttpServerTest, WhereItCannotListenItSaysSo) {
  start();
  HttpServerOptions options;
  options.port = server_->port();
  EXPECT_THAT(HttpServer::start(options, {}).error().message, HasSubstr("cannot listen"));
  options.host = "no such host";
  EXPECT_EQ(HttpServer::start(options, {}).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace hf2q
