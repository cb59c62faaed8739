#include "serve/grammar_cache.h"

#include <algorithm>

#include "grammar/tool_grammar.h"

namespace hf2q {
namespace {

using nlohmann::ordered_json;

std::string text_of(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

// A request that asks for what is not supported is wrong, not the server. Schemas are named by
// where they stand in the request.
Result<Grammar::Shared> naming_field(Result<Grammar::Shared> result) {
  if (result.ok()) return result;
  const std::string& message = result.error().message;
  return error(ErrorCode::kInvalidArgument, "{}{}",
               message.starts_with("schema") ? "response_format.json_schema." : "", message);
}

}  // namespace

Result<Grammar::Shared> GrammarCache::find_or_make(std::string key, const Make& make) {
  const auto take = [&]() -> Grammar::Shared {
    const auto found = std::ranges::find(kept_, key, &decltype(kept_)::value_type::first);
    if (found == kept_.end()) return nullptr;
    std::rotate(found, found + 1, kept_.end());
    return kept_.back().second;
  };
  {
    const std::lock_guard lock(mutex_);
    if (Grammar::Shared known = take()) return known;
  }
  TRY(made, make());
  const std::lock_guard lock(mutex_);
  if (Grammar::Shared known = take()) return known;  // another thread was faster
  if (kept_.size() == kMostKept) kept_.erase(kept_.begin());
  kept_.emplace_back(std::move(key), made);
  return made;
}

Result<Grammar::Shared> GrammarCache::of_format(const OutputFormat& format, Thought thought) {
  const GrammarOptions options = {.thought = thought};
  const int kind = static_cast<int>(thought);
  if (format.schema) {
    return find_or_make(fmt::format("schema {} {}", kind, text_of(*format.schema)), [&] {
      return naming_field(Grammar::from_json_schema(*format.schema, vocabulary_, options));
    });
  }
  if (format.grammar.empty()) return Grammar::Shared();
  return find_or_make(fmt::format("grammar {} {}", kind, format.grammar), [&] {
    return naming_field(Grammar::from_gbnf(format.grammar, vocabulary_, options));
  });
}

Result<Grammar::Shared> GrammarCache::of_chat(const ChatRequest& request, Thought thought) {
  using Kind = ToolChoice::Kind;
  const ToolChoice& choice = request.tool_choice;
  const OutputFormat& format = request.answer.format;
  const bool forced = choice.kind == Kind::kRequired || choice.kind == Kind::kNamed;
  const bool formed = format.schema || !format.grammar.empty();
  if (!forced && (request.tools.is_null() || !formed)) return of_format(format, thought);
  CallChoice call = {.name = choice.name, .several_calls = request.parallel_tool_calls};
  if (!forced) {
    call.or_schema = format.schema;
    call.or_gbnf = format.grammar;
  }
  std::string key = fmt::format("tools {} {} {} {} {} {}", static_cast<int>(thought),
                                text_of(choice.name), call.several_calls, text_of(request.tools),
                                call.or_schema ? text_of(*call.or_schema) : "none", call.or_gbnf);
  return find_or_make(std::move(key), [&] {
    return naming_field(tool_call_grammar(request.tools, call, vocabulary_, {.thought = thought}));
  });
}

}  // namespace hf2q
