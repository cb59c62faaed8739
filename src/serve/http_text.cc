#include "serve/http_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace hf2q {
namespace {

struct Reason {
  int status;
  std::string_view text;
};
constexpr Reason kReasons[] = {
    {200, "OK"},
    {204, "No Content"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
};

void append_header(std::string& text, std::string_view name, std::string_view value) {
  const auto append = [&](std::string_view part) {
    std::ranges::copy_if(part, std::back_inserter(text),
                         [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7F; });
  };
  append(name);
  text += ": ";
  append(value);
  text += "\r\n";
}

}  // namespace

std::string_view reason_of(int status) {
  const auto* const found = std::ranges::find(kReasons, status, &Reason::status);
  return found == std::end(kReasons) ? std::string_view() : found->text;
}

std::string head_text(const HttpHead& head, const HttpHeaders& headers) {
  std::string text = fmt::format("HTTP/1.1 {} {}\r\n", head.status, reason_of(head.status));
  if (!head.content_type.empty()) append_header(text, "Content-Type", head.content_type);
  for (const auto& [name, value] : headers) append_header(text, name, value);
  if (head.form == HttpBodyForm::kChunked) append_header(text, "Transfer-Encoding", "chunked");
  if (head.form == HttpBodyForm::kLength && head.status != 204) {
    append_header(text, "Content-Length", fmt::format("{}", head.length));
  }
  append_header(text, "Connection", head.keep_alive ? "keep-alive" : "close");
  return text += "\r\n";
}

std::string chunk_text(std::string_view bytes) {
  return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

std::optional<std::string> usable_request_id(std::string_view given) {
  const bool visible = std::ranges::all_of(given, [](char c) { return c > 0x20 && c < 0x7F; });
  if (given.empty() || given.size() > 128 || !visible) return std::nullopt;
  return std::string(given);
}

}  // namespace hf2q
