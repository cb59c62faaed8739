#pragma once
// What an answer has to follow: -j/--json-schema, --grammar, --grammar-file.

#include <string>

#include "base/result.h"
#include "flags.h"
#include "grammar/grammar.h"
#include "tokenizer/tokenizer.h"

namespace hf2q::app {

// At most one of them.
struct GrammarFlags {
  std::string json_schema;  // the schema, or a file with it
  std::string grammar;      // GBNF
  std::string grammar_file;
};

void add_grammar_flags(Command& command, GrammarFlags& flags);

// What the flags say, files read: a schema or GBNF, "" where none was given.
struct GrammarText {
  std::string text;
  bool is_schema = false;
};
// Errors of read_text_file.
Result<GrammarText> read_grammar_text(const GrammarFlags& flags);

// The grammar of the text, none where there is none. Errors of gbnf.h and json_schema.h;
// kInvalidArgument naming the flag for what is no JSON.
Result<Grammar::Shared> grammar_from(const GrammarText& source, const Tokenizer& tokenizer,
                                     const GrammarOptions& options);

}  // namespace hf2q::app
