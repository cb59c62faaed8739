#pragma once
// A client that sends exactly the bytes it is told to.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace hf2q::testing_support {

class RawClient {
 public:
  explicit RawClient(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    const timeval patience = {.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  ~RawClient() { ::close(socket_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  // False: the server does not take it any more.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  // All bytes up to and with `end`; fewer, where the connection ends before.
  std::string read_until(std::string_view end) {
    while (held_.find(end) == std::string::npos && read_more()) {
    }
    const size_t at = held_.find(end);
    const size_t size = at == std::string::npos ? held_.size() : at + end.size();
    const std::string bytes = held_.substr(0, size);
    held_.erase(0, size);
    return bytes;
  }
  std::string read_n(size_t n) {
    while (held_.size() < n && read_more()) {
    }
    const std::string bytes = held_.substr(0, n);
    held_.erase(0, n);
    return bytes;
  }
  std::string read_to_end() {
    while (read_more()) {
    }
    return std::exchange(held_, {});
  }
  void shut_down_sending() { ::shutdown(socket_, SHUT_WR); }

 private:
  bool read_more() {
    char bytes[4096];
    const ssize_t n = ::recv(socket_, bytes, sizeof(bytes), 0);
    if (n > 0) held_.append(bytes, static_cast<size_t>(n));
    return n > 0;
  }

  int socket_;
  bool connected_ = false;
  std::string held_;
};

}  // namespace hf2q::testing_support
