#include "serve/api_error.h"

#include <algorithm>
#include <utility>

namespace hf2q {
namespace {

using nlohmann::ordered_json;

struct Row {
  ErrorCode code;
  int status;
  std::string_view type;
};
constexpr Row kRows[] = {
    {ErrorCode::kInvalidArgument, 400, "invalid_request_error"},
    {ErrorCode::kNotFound, 404, "not_found_error"},
    {ErrorCode::kUnsupported, 501, "not_supported_error"},
    {ErrorCode::kOutOfMemory, 503, "unavailable_error"},
    {ErrorCode::kCorrupt, 500, "server_error"},
    {ErrorCode::kIo, 500, "server_error"},
};

bool is_path_letter(char c) {
  constexpr std::string_view kOthers = "_.[]-$";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         kOthers.find(c) != kOthers.npos;
}

// "messages[0].role" of "messages[0].role: a string expected"; "" where no field comes first.
std::string place_of(std::string_view message) {
  const std::string_view place = message.substr(0, message.find(": "));
  if (place.size() == message.size() || !std::ranges::all_of(place, is_path_letter)) return {};
  return std::string(place);
}

}  // namespace

ApiError api_error(const Error& error) {
  const Row& row = *std::ranges::find(kRows, error.code, &Row::code);
  ApiError result = {row.status, row.type, error.message};
  if (row.status == 400 || row.status == 501) result.param = place_of(error.message);
  return result;
}

HttpReply error_reply(const ApiError& error) {
  ordered_json object = {
      {"message", error.message},
      {"type", error.type},
      {"param", error.param.empty() ? ordered_json() : ordered_json(error.param)},
      {"code", error.status}};
  if (error.numbers.is_object()) object.update(error.numbers);
  const ordered_json body = {{"error", std::move(object)}};
  HttpReply reply;
  reply.status = error.status;
  reply.body = body.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  reply.headers = error.headers;
  return reply;
}

HttpReply error_reply(const Error& error) {
  return error_reply(api_error(error));
}

}  // namespace hf2q
