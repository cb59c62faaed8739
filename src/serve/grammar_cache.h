#pragma once
// Grammars of requests. The last ones are kept: what a grammar learns of the vocabulary serves the
// next request that asks for the same form.

#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "grammar/grammar.h"
#include "serve/api_request.h"

namespace hf2q {

class GrammarCache {
 public:
  // The tokenizer has to outlive it.
  explicit GrammarCache(const Tokenizer& tokenizer)
      : vocabulary_(GrammarVocabulary::create(tokenizer)) {}

  // What an answer may say behind a thought of this kind; nothing where all is allowed.
  // kInvalidArgument naming the field, also for what is not supported.
  Result<Grammar::Shared> of_format(const OutputFormat& format, Thought thought);
  // Of a chat: calls of its tools where these are forced; calls, or an answer of its format; else
  // as of_format.
  Result<Grammar::Shared> of_chat(const ChatRequest& request, Thought thought);

 private:
  using Make = std::function<Result<Grammar::Shared>()>;
  static constexpr size_t kMostKept = 16;

  Result<Grammar::Shared> find_or_make(std::string key, const Make& make);

  Grammar::Vocabulary vocabulary_;
  std::mutex mutex_;
  std::vector<std::pair<std::string, Grammar::Shared>> kept_;  // the one used last comes last
};

}  // namespace hf2q
