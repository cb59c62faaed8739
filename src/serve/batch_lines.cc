#include "serve/batch_lines.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/quote.h"
#include "serve/api.h"
#include "serve/api_fields.h"
#include "serve/api_request.h"
#include "serve/reply_parts.h"

namespace hf2q {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kBatchUrls[] = {"/v1/chat/completions", "/v1/completions",
                                           "/v1/embeddings"};

ordered_json id_or_null(std::string_view custom_id) {
  return custom_id.empty() ? ordered_json() : ordered_json(custom_id);
}

}  // namespace

std::vector<std::string_view> batch_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.find_first_not_of(" \t\r") != line.npos) lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

Result<BatchLine> parse_batch_line(std::string_view text) {
  TRY(object, parse_body(text));
  BatchLine line;
  Fields fields(object);
  std::string url;
  fields.read("custom_id", line.custom_id);
  if (line.custom_id.empty()) fields.refuse("custom_id", "a text");
  fields.read("url", url);
  if (std::ranges::find(kBatchUrls, url) == std::end(kBatchUrls)) {
    fields.refuse("url", fmt::format("one of {}", fmt::join(kBatchUrls, ", ")));
  }
  line.request.method = "POST";
  fields.read_one_of("method", line.request.method, {"POST"});
  ordered_json body;
  fields.read_structured("body", body, "an object");
  if (!body.is_object()) fields.refuse("body", "an object");
  TRY_OK(fields.status());
  if (body.contains("stream") && body["stream"] == true) {
    return error(ErrorCode::kInvalidArgument, "body.stream: false expected in a batch, found true");
  }
  line.request.target = std::move(url);
  line.request.body = json_text(body);
  line.request.id = new_id("req_");
  return line;
}

std::string custom_id_of(std::string_view line) {
  const Result<ordered_json> object = parse_body(line);
  if (!object.ok()) return {};
  const auto id = object.value().find("custom_id");
  return id != object.value().end() && id->is_string() ? id->get<std::string>() : std::string();
}

std::string batch_result_line(const BatchLine& line, const HttpReply& reply) {
  return fmt::format(
      R"({{"id":{},"custom_id":{},"response":{{"status_code":{},"request_id":{},"body":{}}},"error":null}})",
      json_text(new_id("batch_req_")), json_text(line.custom_id), reply.status,
      json_text(line.request.id), reply.body);
}

std::string batch_error_line(std::string_view custom_id, const Error& error) {
  return json_text({{"id", new_id("batch_req_")},
                    {"custom_id", id_or_null(custom_id)},
                    {"response", nullptr},
                    {"error", {{"code", "invalid_request"}, {"message", error.message}}}});
}

Result<BatchDone> batch_done(std::string_view output, std::span<const std::string_view> input) {
  BatchDone done;
  for (;;) {
    const size_t end = output.find('\n', done.n_bytes);
    if (end == output.npos) return done;
    const std::string found = custom_id_of(output.substr(done.n_bytes, end - done.n_bytes));
    const std::string expected =
        done.n_lines < input.size() ? custom_id_of(input[done.n_lines]) : std::string();
    if (done.n_lines == input.size() || found != expected) {
      return error(ErrorCode::kInvalidArgument,
                   "line {}: the result of {} expected, found that of {}: of another input?",
                   done.n_lines + 1, quote(expected), quote(found));
    }
    ++done.n_lines;
    done.n_bytes = end + 1;
  }
}

}  // namespace hf2q
