#pragma once
// What the routes work with: the service, and what of the model and the flags answers depend on.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/output_parser.h"
#include "chat/template.h"
#include "serve/api_request.h"
#include "serve/grammar_cache.h"
#include "serve/http.h"
#include "serve/request.h"
#include "serve/service.h"

namespace hf2q {

struct ApiOptions {
  std::string model_name;            // what clients call the model
  std::string version;               // of this program
  std::vector<std::string> keys;     // of which a request needs one; none: no request does
  std::vector<std::string> origins;  // web pages that may call, "https://a.b", or "*"
  bool share_prefixes = false;       // of all keys: else nobody reuses what another has sent
  double load_seconds = 0;           // that loading the model took
};

// Lives as long as requests are served. Immutable but for the cache of grammars; any thread.
struct Api {
  Api(Service& service, ApiOptions options, ChatTemplate jinja);

  const Tokenizer& tokenizer() const { return service.engine().tokenizer(); }

  Service& service;
  const ApiOptions options;
  const ChatTemplate jinja;
  const MarkerIds markers;
  mutable GrammarCache grammars;
  RequestDefaults defaults;  // sampling, seed and thinking are set before the first request
  std::string fingerprint;   // of program and model: the same bytes come only from the same
  int64_t created;           // seconds since 1970
};

int64_t unix_seconds();
// `prefix` and 24 random letters and digits.
std::string new_id(std::string_view prefix);

// The K of "Authorization: Bearer K"; "" without one.
std::string_view bearer_key(const HttpRequest& request);
// Whether `key` is one of them; how long it takes tells nothing of how much of it is right.
bool is_known_key(const std::vector<std::string>& keys, std::string_view key);

// Who shares cache pages with this request: those of the same key and the same salt.
// `use_cache` false: nobody.
std::string name_space_of(const Api& api, const HttpRequest& request, std::string_view salt,
                          bool use_cache);

// How files name namespaces: by a digest of the key, and the salt.
NameSpaceLabels name_space_labels(const std::vector<std::string>& keys);

// What chat and plain completions ask of the service alike.
ServeRequest serve_request(const Api& api, const HttpRequest& request, const AnswerRequest& answer,
                           std::vector<int32_t> prompt);

}  // namespace hf2q
