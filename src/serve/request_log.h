#pragma once
// A line for each request: no header, no query, no text of anybody's.

#include <chrono>
#include <string>

#include "serve/http_server.h"

namespace hf2q {

// "2026-01-31T23:59:59.123Z"
std::string utc_time(std::chrono::system_clock::time_point time);

// {"time", "id", "client", "method", "path", "status", "ms", "bytes"}, then "left_early": true
// where it is so, and the notes. Without line break.
std::string json_log_line(const HttpLogEntry& entry, std::string_view time);
// The same for people.
std::string text_log_line(const HttpLogEntry& entry, std::string_view time);

}  // namespace hf2q
