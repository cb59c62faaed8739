#pragma once
// Errors as the OpenAI API writes them:
//   {"error": {"message": "...", "type": "invalid_request_error", "param": "top_p", "code": 400}}

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "serve/http.h"

namespace hf2q {

struct ApiError {
  int status = 400;
  std::string_view type = "invalid_request_error";
  std::string message;
  std::string param{};               // the field that is wrong; "": null
  nlohmann::ordered_json numbers{};  // further members of the object, or null
  HttpHeaders headers{};
};

// 400 for kInvalidArgument, the field being what the message begins with ("top_p: 0 to 1 ..."); 501
// for kUnsupported, 404 for kNotFound, 503 for kOutOfMemory, 500 for the rest.
ApiError api_error(const Error& error);

HttpReply error_reply(const ApiError& error);
HttpReply error_reply(const Error& error);

}  // namespace hf2q
