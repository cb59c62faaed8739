#include "serve/http_server.h"

#include <array>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "serve/api_error.h"
#include "serve/http_text.h"

// The only file that sees Boost.

namespace hf2q {
namespace {

namespace asio = boost::asio;
namespace beast_http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using NetClock = std::chrono::steady_clock;

class NetServer;
class NetConnection;

HttpReply refusal_reply(int status, std::string message) {
  return error_reply(ApiError{.status = status, .message = std::move(message)});
}

HttpReply unanswered() {
  return error_reply(error(ErrorCode::kIo, "the request could not be answered"));
}

double milliseconds_since(NetClock::time_point start) {
  return std::chrono::duration<double, std::milli>(NetClock::now() - start).count();
}

// A library's exceptions end here: what they interrupted is answered with 500.
template <class Work>
bool ran_whole(Work&& work) {
  try {
    work();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// An answer in the making. Everything but post() runs on the connection's strand.
class NetExchange final : public HttpExchange, public std::enable_shared_from_this<NetExchange> {
 public:
  NetExchange(std::shared_ptr<NetConnection> connection, const HttpRequest& head,
              HttpHeaders headers, unsigned version, bool keep_alive);

  void post(std::function<void()> work) override;
  void on_close(std::function<void()> closed) override { closed_ = std::move(closed); }
  void send(HttpReply reply) override;
  void begin_stream(HttpHeaders headers) override;
  void event(std::string data) override { stream("data: " + std::move(data) + "\n\n"); }
  void end() override;
  void note(std::string_view name, uint64_t value) override { notes_.emplace_back(name, value); }
  void fail(HttpReply reply) override;

  void ping() { stream(": ping\n\n"); }
  bool streams() const { return streams_ && !done_; }
  bool done() const { return done_; }
  bool keep_alive() const { return keep_alive_; }
  void end_connection() { keep_alive_ = false; }  // behind this answer
  // The client is gone, or has been given up.
  void close();
  void log(bool left_early);

 private:
  void stream(std::string text);
  void finish();

  std::shared_ptr<NetConnection> connection_;
  std::string id_;
  std::string method_;
  std::string path_;
  HttpHeaders headers_;
  bool is_head_;
  bool chunks_;
  bool keep_alive_;
  bool streams_ = false;
  bool head_sent_ = false;
  bool done_ = false;
  bool logged_ = false;
  int status_ = 0;
  uint64_t sent_bytes_ = 0;
  NetClock::time_point start_ = NetClock::now();
  std::vector<std::pair<std::string_view, uint64_t>> notes_;
  std::function<void()> closed_;
};

// One socket. Reads until there is a request, then goes on to read: the next request, or the end.
class NetConnection final : public std::enable_shared_from_this<NetConnection> {
 public:
  NetConnection(NetServer& server, tcp::socket socket);
  ~NetConnection();

  void start();
  void close();
  // No further request is taken.
  void end_soon();
  const std::string& client() const { return client_; }

  // Of the exchange.
  void write(std::string bytes);
  void answered();
  void expect_pings();
  size_t unsent() const { return unsent_; }

  NetServer& server;
  tcp::socket socket;

 private:
  enum class State : uint8_t { kIdle, kHeader, kBody, kBusy, kLingering, kClosed };
  using Parser = beast_http::request_parser<beast_http::string_body>;

  void read();
  void on_read(error_code failure, size_t n);
  void process();
  bool advance();
  void begin_request();
  bool on_header();
  void dispatch();
  void refuse(HttpReply reply);
  void refuse_broken(error_code failure);
  void write_more();
  void on_written(error_code failure, size_t n);
  void after_answer();
  void linger();
  void set_deadline(NetClock::duration time);
  void on_deadline();
  void on_busy_deadline();

  std::string client_;
  State state_ = State::kIdle;
  std::array<char, 16384> chunk_ = {};
  std::string in_;  // read, but not yet parsed
  bool reading_ = false;
  std::optional<Parser> parser_;
  HttpRequest request_;
  std::shared_ptr<NetExchange> exchange_;
  std::deque<std::string> out_;
  size_t out_begin_ = 0;  // of the first of out_, bytes that are sent
  size_t unsent_ = 0;
  bool writing_ = false;
  bool ends_soon_ = false;
  NetClock::time_point last_write_ = NetClock::now();  // asked for
  NetClock::time_point last_sent_ = NetClock::now();   // taken by the client
  asio::steady_timer timer_;
};

class NetServer final : public HttpServer {
 public:
  NetServer(const HttpServerOptions& options, HttpHooks hooks)
      : options(options), hooks(std::move(hooks)), acceptor_(asio::make_strand(io_)) {}
  ~NetServer() override { stop(std::chrono::milliseconds(0)); }

  Status listen();
  uint16_t port() const override { return port_; }
  void stop(std::chrono::milliseconds patience) override;

  void add(NetConnection* connection);
  void remove(NetConnection* connection);
  std::string new_id();

  const HttpServerOptions options;
  const HttpHooks hooks;

 private:
  void accept();
  void close_all();
  void on_accept(error_code failure, tcp::socket socket);

  uint16_t port_ = 0;
  std::mutex mutex_;  // of what comes up to the context
  std::condition_variable empty_;
  std::set<NetConnection*> connections_;
  std::mt19937_64 random_{std::random_device{}()};
  bool accepting_ = false;  // an accept is in work
  bool stopping_ = false;

  // Work that is left holds connections, which leave the set: so these go before it.
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  tcp::acceptor acceptor_;
  asio::steady_timer retry_{acceptor_.get_executor()};
  std::vector<std::thread> threads_;
};

// ---- an answer ----

NetExchange::NetExchange(std::shared_ptr<NetConnection> connection, const HttpRequest& head,
                         HttpHeaders headers, unsigned version, bool keep_alive)
    : connection_(std::move(connection)),
      id_(head.id),
      method_(head.method),
      path_(path_of(head)),
      headers_(std::move(headers)),
      is_head_(head.method == "HEAD"),
      chunks_(version >= 11),
      keep_alive_(keep_alive) {
  headers_.emplace_back("X-Request-Id", id_);
}

void NetExchange::post(std::function<void()> work) {
  asio::post(connection_->socket.get_executor(),
             [self = shared_from_this(), work = std::move(work)] {
               if (!ran_whole(work)) self->fail(unanswered());
             });
}

void NetExchange::send(HttpReply reply) {
  if (done_) return;
  status_ = reply.status;
  for (auto& header : headers_) reply.headers.push_back(header);
  std::string text = head_text({.status = reply.status,
                                .content_type = reply.body.empty() ? "" : reply.content_type,
                                .length = reply.body.size(),
                                .keep_alive = keep_alive_},
                               reply.headers);
  if (!is_head_) text += reply.body;
  sent_bytes_ += text.size();
  connection_->write(std::move(text));
  finish();
}

void NetExchange::begin_stream(HttpHeaders headers) {
  if (done_) return;
  streams_ = true;
  headers_.insert(headers_.end(), headers.begin(), headers.end());
  connection_->expect_pings();
}

void NetExchange::stream(std::string text) {
  if (done_) return;
  if (connection_->unsent() > connection_->server.options.max_unsent_bytes) {
    return connection_->close();
  }
  std::string bytes;
  if (!std::exchange(head_sent_, true)) {
    status_ = 200;
    if (!chunks_) keep_alive_ = false;
    bytes = head_text({.content_type = "text/event-stream",
                       .form = chunks_ ? HttpBodyForm::kChunked : HttpBodyForm::kToClose,
                       .keep_alive = keep_alive_},
                      headers_);
  }
  bytes += chunks_ ? chunk_text(text) : std::move(text);
  sent_bytes_ += bytes.size();
  connection_->write(std::move(bytes));
}

void NetExchange::end() {
  if (done_) return;
  if (chunks_) connection_->write(chunk_text(""));
  finish();
}

void NetExchange::fail(HttpReply reply) {
  if (!head_sent_) return send(std::move(reply));
  event(std::move(reply.body));
  end();
}

void NetExchange::finish() {
  done_ = true;
  closed_ = nullptr;
  connection_->answered();
}

void NetExchange::close() {
  if (std::exchange(done_, true)) return;
  if (const auto closed = std::exchange(closed_, nullptr)) ran_whole(closed);
}

void NetExchange::log(bool left_early) {
  if (std::exchange(logged_, true) || !connection_->server.hooks.log) return;
  connection_->server.hooks.log({id_, connection_->client(), method_, path_, status_, sent_bytes_,
                                 milliseconds_since(start_), left_early, notes_});
}

// ---- a connection ----

NetConnection::NetConnection(NetServer& server, tcp::socket taken)
    : server(server), socket(std::move(taken)), timer_(socket.get_executor()) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  const tcp::endpoint remote = socket.remote_endpoint(ignored);
  client_ = remote.address().to_string(ignored);
  server.add(this);
}

NetConnection::~NetConnection() {
  server.remove(this);
}

void NetConnection::start() {
  set_deadline(server.options.idle_time);
  read();
}

void NetConnection::close() {
  if (std::exchange(state_, State::kClosed) == State::kClosed) return;
  error_code ignored;
  timer_.cancel(ignored);
  socket.close(ignored);
  if (const auto exchange = std::exchange(exchange_, nullptr)) {
    exchange->log(/*left_early=*/!exchange->done());
    exchange->close();
  }
  server.remove(this);  // others may keep the exchange, and it this
}

void NetConnection::end_soon() {
  ends_soon_ = true;
  if (state_ == State::kIdle) return close();
  if (exchange_) exchange_->end_connection();
}

void NetConnection::read() {
  constexpr size_t kMostAhead = size_t{64} << 10;  // of the next request, while one is answered
  if (reading_ || state_ == State::kClosed) return;
  if (state_ == State::kBusy && in_.size() > kMostAhead) return;
  reading_ = true;
  socket.async_read_some(asio::buffer(chunk_),
                         [self = shared_from_this()](error_code failure, size_t n) {
                           self->reading_ = false;
                           self->on_read(failure, n);
                         });
}

void NetConnection::on_read(error_code failure, size_t n) {
  if (failure) return close();
  if (state_ != State::kLingering) in_.append(chunk_.data(), n);
  process();
  read();
}

// As far as the bytes go.
void NetConnection::process() {
  while (!in_.empty() && state_ <= State::kBody) {
    if (!advance()) return;
  }
}

// One step of the parser. False: it needs more bytes, or the request is answered.
bool NetConnection::advance() {
  if (state_ == State::kIdle) {
    if (in_.front() == '\r' || in_.front() == '\n') {  // some clients send one behind a body
      in_.erase(0, 1);
      return true;
    }
    begin_request();
  }
  error_code failure;
  const size_t n = parser_->put(asio::buffer(in_), failure);
  in_.erase(0, n);
  if (failure == beast_http::error::need_more) return false;
  if (failure) {
    refuse_broken(failure);
    return false;
  }
  if (state_ == State::kHeader && parser_->is_header_done() && !on_header()) return false;
  if (parser_->get().body().size() > server.options.max_body_bytes) {
    refuse(refusal_reply(
        413, fmt::format("body: at most {} bytes expected", server.options.max_body_bytes)));
    return false;
  }
  if (!parser_->is_done()) return true;
  dispatch();
  return false;
}

void NetConnection::begin_request() {
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(server.options.max_header_bytes));
  parser_->body_limit(UINT64_MAX);  // on_header() and advance() look after it
  parser_->eager(false);            // so that on_header() comes before any of the body
  state_ = State::kHeader;
  set_deadline(server.options.header_time);
}

// False: the request has been refused.
bool NetConnection::on_header() {
  const auto& message = parser_->get();
  request_ = {};
  request_.method = std::string(message.method_string());
  request_.target = std::string(message.target());
  for (const auto& field : message) {
    request_.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  request_.id = usable_request_id(header_of(request_, "X-Request-Id")).value_or(server.new_id());
  state_ = State::kBody;
  const bool keep_alive = message.keep_alive() && !ends_soon_;
  HttpHeaders headers;
  if (server.hooks.headers) headers = server.hooks.headers(request_);
  exchange_ = std::make_shared<NetExchange>(shared_from_this(), request_, std::move(headers),
                                            message.version(), keep_alive);
  std::optional<HttpReply> refused;
  const uint64_t length = parser_->content_length().value_or(0);
  if (server.hooks.refuse) refused = server.hooks.refuse(request_);
  if (!refused && length > server.options.max_body_bytes) {
    refused = refusal_reply(413, fmt::format("body: at most {} bytes expected, found {}",
                                             server.options.max_body_bytes, length));
  }
  if (refused) {
    refuse(*std::move(refused));
    return false;
  }
  set_deadline(server.options.body_time);
  if (header_of(request_, "Expect") == "100-continue") write("HTTP/1.1 100 Continue\r\n\r\n");
  return true;
}

void NetConnection::dispatch() {
  request_.body = std::move(parser_->get().body());
  parser_.reset();
  state_ = State::kBusy;
  set_deadline(server.options.ping_time);
  const std::shared_ptr<NetExchange> exchange = exchange_;
  if (!ran_whole([&] { server.hooks.handle(request_, exchange); })) {
    exchange->fail(unanswered());
  }
}

// Answers before the request has come whole; unless it has no body, the connection ends behind it.
void NetConnection::refuse(HttpReply reply) {
  if (!exchange_) {
    request_ = {};
    request_.id = server.new_id();
    exchange_ =
        std::make_shared<NetExchange>(shared_from_this(), request_, HttpHeaders(), 11, false);
  }
  const bool whole = parser_ && parser_->is_header_done() && parser_->is_done();
  if (!whole) exchange_->end_connection();
  parser_.reset();
  state_ = State::kBusy;
  set_deadline(server.options.ping_time);
  const std::shared_ptr<NetExchange> exchange = exchange_;
  exchange->send(std::move(reply));
}

void NetConnection::refuse_broken(error_code failure) {
  if (failure == beast_http::error::header_limit) {
    return refuse(refusal_reply(431, fmt::format("header: at most {} bytes expected, found more",
                                                 server.options.max_header_bytes)));
  }
  refuse(refusal_reply(400, "request: HTTP/1.1 expected, found other bytes"));
}

void NetConnection::write(std::string bytes) {
  if (state_ == State::kClosed) return;
  last_write_ = NetClock::now();
  if (out_.empty()) last_sent_ = last_write_;
  unsent_ += bytes.size();
  out_.push_back(std::move(bytes));
  write_more();
}

void NetConnection::write_more() {
  if (writing_ || out_.empty() || state_ == State::kClosed) return;
  writing_ = true;
  const auto rest = std::string_view(out_.front()).substr(out_begin_);
  socket.async_write_some(asio::buffer(rest.data(), rest.size()),
                          [self = shared_from_this()](error_code failure, size_t n) {
                            self->writing_ = false;
                            self->on_written(failure, n);
                          });
}

void NetConnection::on_written(error_code failure, size_t n) {
  if (failure) return close();
  last_sent_ = NetClock::now();
  unsent_ -= n;
  out_begin_ += n;
  if (out_begin_ == out_.front().size()) {
    out_.pop_front();
    out_begin_ = 0;
  }
  if (!out_.empty()) return write_more();
  if (exchange_ && exchange_->done()) after_answer();
}

void NetConnection::answered() {
  if (out_.empty() && state_ == State::kBusy) after_answer();
}

// The client has all of the answer.
void NetConnection::after_answer() {
  const auto exchange = std::exchange(exchange_, nullptr);
  exchange->log(/*left_early=*/false);
  if (!exchange->keep_alive() || ends_soon_) return linger();
  state_ = State::kIdle;
  set_deadline(server.options.idle_time);
  // Not at once: of requests that came together each would be answered inside of the one before.
  asio::post(socket.get_executor(), [self = shared_from_this()] {
    self->process();
    self->read();
  });
}

// Closing a socket that has unread bytes would take back what was sent: the client is told that no
// more comes, and what it still sends is read.
void NetConnection::linger() {
  state_ = State::kLingering;
  in_.clear();
  error_code ignored;
  socket.shutdown(tcp::socket::shutdown_send, ignored);
  set_deadline(server.options.linger_time);
  read();
}

void NetConnection::expect_pings() {
  set_deadline(server.options.ping_time);
}

void NetConnection::set_deadline(NetClock::duration time) {
  if (state_ == State::kClosed) return;
  error_code ignored;
  timer_.expires_after(time);
  timer_.async_wait([weak = weak_from_this()](error_code failure) {
    const auto self = weak.lock();
    if (!failure && self && self->timer_.expiry() <= NetClock::now()) self->on_deadline();
  });
}

void NetConnection::on_deadline() {
  if (state_ == State::kBusy) return on_busy_deadline();
  if (state_ != State::kHeader && state_ != State::kBody) return close();
  refuse(refusal_reply(408, "request: its end expected in time"));
}

void NetConnection::on_busy_deadline() {
  const NetClock::time_point now = NetClock::now();
  if (!out_.empty() && now - last_sent_ > server.options.stall_time) return close();
  const bool quiet = now - last_write_ >= server.options.ping_time;
  if (quiet && exchange_ && exchange_->streams()) exchange_->ping();
  if (state_ == State::kBusy) set_deadline(server.options.ping_time);
}

// ---- the server ----

Status NetServer::listen() {
  error_code failure;
  tcp::resolver resolver(io_);
  const auto found = resolver.resolve(options.host, fmt::format("{}", options.port),
                                      tcp::resolver::passive, failure);
  if (failure || found.empty()) {
    return error(ErrorCode::kInvalidArgument, "host: an address or a name expected, found {}",
                 options.host);
  }
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor_.open(endpoint.protocol(), failure);
  if (!failure) acceptor_.set_option(tcp::acceptor::reuse_address(true), failure);
  if (!failure) acceptor_.bind(endpoint, failure);
  if (!failure) acceptor_.listen(tcp::acceptor::max_listen_connections, failure);
  if (failure) {
    return error(ErrorCode::kIo, "{}:{}: cannot listen: {}", options.host, options.port,
                 failure.message());
  }
  port_ = acceptor_.local_endpoint(failure).port();
  accepting_ = true;
  asio::post(acceptor_.get_executor(), [this] { accept(); });
  start_threads(threads_, options.n_threads, [this] { io_.run(); });
  if (threads_.empty()) {
    return error(ErrorCode::kOutOfMemory, "threads: the system gives none for the network");
  }
  return Ok{};
}

void NetServer::accept() {
  acceptor_.async_accept(asio::make_strand(io_), [this](error_code failure, tcp::socket socket) {
    on_accept(failure, std::move(socket));
  });
}

void NetServer::on_accept(error_code failure, tcp::socket socket) {
  if (!acceptor_.is_open()) return;
  if (failure) {  // no file descriptor is left, mostly
    retry_.expires_after(std::chrono::milliseconds(100));
    retry_.async_wait([this](error_code ended) {
      if (!ended) accept();
    });
    return;
  }
  const auto executor = socket.get_executor();
  auto connection = std::make_shared<NetConnection>(*this, std::move(socket));
  asio::post(executor, [connection = std::move(connection)] { connection->start(); });
  {
    const std::lock_guard lock(mutex_);
    accepting_ = connections_.size() < options.max_connections;
    if (!accepting_) return;
  }
  accept();
}

void NetServer::add(NetConnection* connection) {
  const std::lock_guard lock(mutex_);
  connections_.insert(connection);
}

void NetServer::remove(NetConnection* connection) {
  const std::lock_guard lock(mutex_);
  if (connections_.erase(connection) == 0) return;
  if (connections_.empty()) empty_.notify_all();
  if (accepting_ || stopping_) return;
  accepting_ = true;
  asio::post(acceptor_.get_executor(), [this] {
    if (acceptor_.is_open()) accept();
  });
}

std::string NetServer::new_id() {
  const std::lock_guard lock(mutex_);
  return fmt::format("{:016x}{:016x}", random_(), random_());
}

void NetServer::stop(std::chrono::milliseconds patience) {
  if (threads_.empty()) return;
  asio::post(acceptor_.get_executor(), [this] {
    error_code ignored;
    acceptor_.close(ignored);
    retry_.cancel(ignored);
  });
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    for (NetConnection* connection : connections_) {
      // Gone or not: one whose count is zero is about to leave the set.
      if (auto alive = connection->weak_from_this().lock()) {
        const auto executor = alive->socket.get_executor();
        asio::post(executor, [alive = std::move(alive)] { alive->end_soon(); });
      }
    }
    empty_.wait_for(lock, patience, [this] { return connections_.empty(); });
  }
  io_.stop();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  close_all();
}

// Of a server without threads.
void NetServer::close_all() {
  std::vector<std::shared_ptr<NetConnection>> left;
  {
    const std::lock_guard lock(mutex_);
    for (NetConnection* connection : connections_) {
      if (auto alive = connection->weak_from_this().lock()) left.push_back(std::move(alive));
    }
  }
  for (const auto& connection : left) connection->close();
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpServerOptions& options,
                                                      HttpHooks hooks) {
  auto server = std::make_unique<NetServer>(options, std::move(hooks));
  TRY_OK(server->listen());
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace hf2q
