#pragma once
// The part of Jinja2 that chat templates of HuggingFace models use, evaluated over JSON.
//
//   TRY(tmpl, jinja::Template::parse(text));
//   TRY(prompt, tmpl.render({{"messages", messages}, {"add_generation_prompt", true}}));
//
// Whitespace follows transformers: trim_blocks and lstrip_blocks are on, the template's last
// newline is dropped. Values behave as in Python: truth, str() of lists and floats, slices, code
// points.
//
// Statements: if, for (with filter, else, loop.*, break, continue), set (names, tuples, namespace
// attributes, blocks), macro, raw, comments; generation blocks are transparent.
// Not there, and refused while parsing: include, import, extends, block, call, do, with, * and **
// arguments, recursive loops; of the filters center, filesizeformat, pprint, random, slice,
// truncate, urlencode, urlize, wordwrap and xmlattr. Of the methods of strings, center, encode,
// isdecimal, isidentifier, isprintable, istitle, ljust, maketrans, rfind, rindex, rjust, translate
// and zfill are undefined, and an error where they are called. format() takes no attributes or
// items of its arguments and no formats but s, d, x, f and %; striptags knows the entities amp, lt,
// gt, quot, apos, nbsp and numbers.
// Lists and dicts cannot be changed, as in transformers' sandbox.
//
// A template is untrusted: it reaches no file, clock or network; its size, nesting, work and output
// are limited, and what goes beyond is an error. Every error names the line. Half a MiB of stack is
// enough within the default limits.
// Integers have 64 bits; one that leaves them is an error. Case mapping knows Latin, Greek and
// Cyrillic letters that map one to one.

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace hf2q::jinja {

struct Limits {
  size_t max_template_bytes = size_t{1} << 20;
  size_t max_nesting =
      200;  // of brackets, operators and blocks in the text, and of lists and dicts
  size_t max_call_depth = 500;      // of nested statements and expressions while rendering
  uint64_t max_steps = 10'000'000;  // evaluated nodes and loop turns, and 64 bytes of text each
  size_t max_output_bytes = size_t{16} << 20;  // also of any string on the way
};

struct RenderOptions {
  std::optional<std::tm> now;  // what strftime_now tells; without it the function is an error
  std::string_view name = "chat template";  // begins the error messages
};

struct Program;  // the parsed text

class Template {
 public:
  // Fails with kCorrupt (syntax), kUnsupported (known Jinja that is not there) or, beyond a limit,
  // kInvalidArgument.
  static Result<Template> parse(std::string_view text, const Limits& limits = {});

  // `variables` is an object: the names the template sees. Fails with kInvalidArgument: what the
  // template refuses (raise_exception), a wrong type, a limit.
  Result<std::string> render(const nlohmann::ordered_json& variables,
                             const RenderOptions& options = {}) const;

 private:
  explicit Template(std::shared_ptr<const Program> program) : program_(std::move(program)) {}
  std::shared_ptr<const Program> program_;
};

}  // namespace hf2q::jinja
