#include "grammar/tool_grammar.h"

#include <string>
#include <utility>
#include <vector>

#include "base/quote.h"
#include "grammar/gbnf.h"
#include "grammar/json_schema.h"
#include "grammar/value_text.h"

namespace hf2q {
namespace {

using Json = nlohmann::ordered_json;
using Fragment = RuleBuilder::Fragment;

struct CallMarkers {
  int32_t begin;
  int32_t end;
  int32_t quote;
};

Result<CallMarkers> find_call_markers(const GrammarVocabulary& vocabulary) {
  const auto begin = vocabulary.marker("<|tool_call>");
  const auto end = vocabulary.marker("<tool_call|>");
  const auto quote = vocabulary.marker("<|\"|>");
  if (begin && end && quote) return CallMarkers{*begin, *end, *quote};
  return error(
      ErrorCode::kUnsupported,
      "tools: the tokens <|tool_call>, <tool_call|> and <|\"|> expected in the vocabulary");
}

struct Function {
  std::string place;
  std::string name;
  Json parameters;
};

Result<std::vector<Function>> functions_of(const Json& tools) {
  if (!tools.is_array()) {
    return error(ErrorCode::kInvalidArgument, "tools: an array expected");
  }
  std::vector<Function> result;
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string place = fmt::format("tools[{}].function", i);
    const Json function = tools[i].is_object() ? tools[i].value("function", Json()) : Json();
    if (!function.is_object()) {
      return error(ErrorCode::kInvalidArgument, "{}: an object expected", place);
    }
    const Json name = function.value("name", Json());
    if (!name.is_string() || name == "") {
      return error(ErrorCode::kInvalidArgument, "{}.name: a text expected", place);
    }
    Json parameters = function.value("parameters", Json());
    if (parameters.is_null() || parameters == Json::object()) parameters = {{"type", "object"}};
    result.push_back({place + ".parameters", name, std::move(parameters)});
  }
  return result;
}

}  // namespace

Result<Grammar::Shared> tool_call_grammar(const Json& tools, const CallChoice& choice,
                                          Grammar::Vocabulary vocabulary,
                                          const GrammarOptions& options) {
  TRY(markers, find_call_markers(*vocabulary));
  TRY(functions, functions_of(tools));
  RuleBuilder builder;
  ValueText text(builder, markers.quote);
  const Fragment choices = builder.nothing();
  size_t n_choices = 0;
  for (const Function& function : functions) {
    if (!choice.name.empty() && choice.name != function.name) continue;
    ++n_choices;
    TRY(arguments, add_schema(text, function.parameters, function.place));
    const Fragment call =
        builder.sequence(builder.bytes("call:" + function.name), builder.call(arguments));
    builder.link(choices.start, call, choices.end);
  }
  if (n_choices == 0) {
    return error(ErrorCode::kInvalidArgument, "tools: {} expected, found none",
                 choice.name.empty() ? "a function" : "the function " + quote(choice.name));
  }
  Fragment call =
      builder.sequence({builder.token(markers.begin), choices, builder.token(markers.end)});
  if (choice.several_calls) call = builder.one_or_more(call);
  if (choice.or_schema) {
    TRY(json, add_json_schema(builder, *choice.or_schema));
    call = builder.either(call, builder.call(json));
  } else if (!choice.or_gbnf.empty()) {
    TRY(text, add_gbnf(builder, choice.or_gbnf));
    call = builder.either(call, builder.call(text));
  }
  const uint32_t root = builder.add_rule("a tool call", call);
  return Grammar::from_rules(builder, root, "tools", std::move(vocabulary), options);
}

}  // namespace hf2q
