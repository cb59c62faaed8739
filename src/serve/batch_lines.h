#pragma once
// The lines of OpenAI's batch files.
//   in:  {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {...}}
//   out: {"id": "batch_req_...", "custom_id": "a",
//         "response": {"status_code": 200, "request_id": "...", "body": {...}}, "error": null}
// A line that cannot be asked has no response, but an error: {"code", "message"}.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/http.h"

namespace hf2q {

struct BatchLine {
  std::string custom_id;
  HttpRequest request;
};

// Those that are not blank.
std::vector<std::string_view> batch_lines(std::string_view text);

// kInvalidArgument naming the field.
Result<BatchLine> parse_batch_line(std::string_view line);
// "" for a line without one.
std::string custom_id_of(std::string_view line);

// Without line break.
std::string batch_result_line(const BatchLine& line, const HttpReply& reply);
std::string batch_error_line(std::string_view custom_id, const Error& error);

// What an earlier run has written: whole lines, in the order of the input.
struct BatchDone {
  size_t n_lines = 0;
  size_t n_bytes = 0;  // of them; the rest of the output is a line that was cut off
};
// kInvalidArgument when `output` belongs to another input.
Result<BatchDone> batch_done(std::string_view output, std::span<const std::string_view> input);

}  // namespace hf2q
