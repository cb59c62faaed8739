#pragma once
// What the pieces of the interpreter share while one template is rendered: the budget, the line for
// messages, and the tables of functions.

#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "chat/jinja.h"
#include "chat/jinja_value.h"

namespace hf2q::jinja {

class Runtime {
 public:
  Runtime(const Limits& limits, const RenderOptions& options)
      : limits_(limits), options_(options) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Counts a step, and one more for each 64 bytes that it handles. To be called before the work.
  Status spend(size_t bytes = 0);

  // The only ways to make strings and containers that a template can let grow.
  Result<Value> make_string(std::string text);
  Result<Value> copy_string(std::string_view text);  // spends its length too
  Result<Value> make_list(std::vector<Value> items, bool tuple = false);
  Result<Value> make_dict(std::vector<std::pair<Value, Value>> entries);
  Namespace& make_namespace() { return namespaces_.emplace_back(); }
  // For one run of a loop (Loop::last_changed).
  Value* make_loop_memory() { return &loop_memories_.emplace_back(); }

  template <class... Args>
  Error fail(fmt::format_string<Args...> text, Args&&... args) const {
    return failure(fmt::format(text, std::forward<Args>(args)...));
  }

  const Limits& limits() const { return limits_; }
  const RenderOptions& options() const { return options_; }

  int line = 0;  // of the node in work

 private:
  Error failure(std::string message) const;

  const Limits& limits_;
  const RenderOptions& options_;
  uint64_t steps_ = 0;
  std::deque<Namespace> namespaces_;  // all that were made: one may hold another, or itself
  std::deque<Value> loop_memories_;   // the same of loops
};

// Arguments of a call. Before a function runs, bind() has put them in the order of its parameters.
struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// `parameters`: names parted by spaces; `!` after a name says that it must be given. The body finds
// one value for each in args.positional, undefined where none was given. "..." leaves args as they
// are.
struct Function {
  std::string_view name;
  std::string_view parameters;
  Result<Value> (*run)(Runtime&, const Value& self, const Args& args);
};

Result<Value> invoke(Runtime& rt, const Function& function, const Value& self, Args args);

// nullptr where there is none of that name.
const Function* find_filter(std::string_view name);
const Function* find_test(std::string_view name);  // gives a boolean
const Function* find_global(std::string_view name);
const Function* find_method(Kind kind, std::string_view name);

}  // namespace hf2q::jinja
