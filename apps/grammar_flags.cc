#include "grammar_flags.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "model_flags.h"

namespace hf2q::app {
namespace {

bool is_schema_text(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && text[begin] == '{';
}

}  // namespace

void add_grammar_flags(Command& command, GrammarFlags& flags) {
  constexpr const char* kGroup = "Form of the answer";
  Option schema =
      command.add_option("-j,--json-schema", flags.json_schema,
                         "The answer is JSON that follows this schema; {} for any JSON");
  schema.value_name("TEXT|FILE").group(kGroup);
  Option grammar = command.add_option("--grammar", flags.grammar, "The answer follows this GBNF");
  grammar.value_name("TEXT").group(kGroup).excludes(schema);
  Option file = command.add_option("--grammar-file", flags.grammar_file, "The same from a file");
  file.value_name("FILE").group(kGroup).excludes(schema).excludes(grammar);
}

Result<GrammarText> read_grammar_text(const GrammarFlags& flags) {
  GrammarText source = {flags.grammar, !flags.json_schema.empty()};
  if (source.is_schema && is_schema_text(flags.json_schema)) {
    source.text = flags.json_schema;
  } else if (source.is_schema || !flags.grammar_file.empty()) {
    TRY(content, read_text_file(source.is_schema ? flags.json_schema : flags.grammar_file));
    source.text = std::move(content);
  }
  return source;
}

Result<Grammar::Shared> grammar_from(const GrammarText& source, const Tokenizer& tokenizer,
                                     const GrammarOptions& options) {
  if (source.text.empty() && !source.is_schema) return Grammar::Shared();
  const auto vocabulary = GrammarVocabulary::create(tokenizer);
  if (!source.is_schema) return Grammar::from_gbnf(source.text, vocabulary, options);
  const auto schema =
      nlohmann::ordered_json::parse(source.text, nullptr, /*allow_exceptions=*/false);
  if (schema.is_discarded()) {
    return error(ErrorCode::kInvalidArgument, "--json-schema: JSON expected");
  }
  return Grammar::from_json_schema(schema, vocabulary, options);
}

}  // namespace hf2q::app
