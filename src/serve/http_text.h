#pragma once
// The bytes of HTTP answers.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "serve/http.h"

namespace hf2q {

// "Not Found" for 404; "" for a status that this server does not send.
std::string_view reason_of(int status);

// How an answer's end is told.
enum class HttpBodyForm : uint8_t {
  kLength,   // Content-Length
  kChunked,  // of HTTP/1.1
  kToClose,  // the connection ends: streams of HTTP/1.0
};

struct HttpHead {
  int status = 200;
  std::string_view content_type{};  // "": none
  HttpBodyForm form = HttpBodyForm::kLength;
  size_t length = 0;  // of kLength
  bool keep_alive = true;
};

// Status line, headers and the empty line behind them. Characters of `headers` that could end a
// line are left out.
std::string head_text(const HttpHead& head, const HttpHeaders& headers);

// One chunk of a chunked body; of no bytes: its end.
std::string chunk_text(std::string_view bytes);

// A request id that may be sent back: the client's, when it is 1 to 128 visible ASCII characters.
std::optional<std::string> usable_request_id(std::string_view given);

}  // namespace hf2q
