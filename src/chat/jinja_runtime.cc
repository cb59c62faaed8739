#include "chat/jinja_runtime.h"

#include <algorithm>

namespace hf2q::jinja {

Error Runtime::failure(std::string message) const {
  return error(ErrorCode::kInvalidArgument, "{}, line {}: {}", options_.name, line, message);
}

Status Runtime::spend(size_t bytes) {
  const uint64_t steps = 1 + bytes / 64;
  if (steps > limits_.max_steps - steps_) {
    steps_ = limits_.max_steps;
    return fail("more than {} steps", limits_.max_steps);
  }
  steps_ += steps;
  return Ok{};
}

Result<Value> Runtime::make_string(std::string text) {
  if (text.size() > limits_.max_output_bytes) {
    return fail("a string of more than {} bytes", limits_.max_output_bytes);
  }
  TRY_OK(spend(64 + text.size()));
  return Value::string(std::move(text));
}

Result<Value> Runtime::copy_string(std::string_view text) {
  TRY_OK(spend(text.size()));
  return make_string(std::string(text));
}

Result<Value> Runtime::make_list(std::vector<Value> items, bool tuple) {
  TRY_OK(spend(64 + items.size() * sizeof(Value)));
  auto list = std::make_shared<List>();
  for (const Value& item : items) list->depth = std::max(list->depth, item.depth() + 1);
  if (list->depth > limits_.max_nesting) {
    return fail("lists nested more than {} deep", limits_.max_nesting);
  }
  list->items = std::move(items);
  list->tuple = tuple;
  return Value::list(std::move(list));
}

Result<Value> Runtime::make_dict(std::vector<std::pair<Value, Value>> entries) {
  TRY_OK(spend(64 + 2 * entries.size() * sizeof(Value)));
  auto dict = std::make_shared<Dict>();
  for (const auto& [key, value] : entries) {
    dict->depth = std::max({dict->depth, key.depth() + 1, value.depth() + 1});
  }
  if (dict->depth > limits_.max_nesting) {
    return fail("dicts nested more than {} deep", limits_.max_nesting);
  }
  dict->entries = std::move(entries);
  return Value::dict(std::move(dict));
}

namespace {

struct Parameter {
  std::string_view name;
  bool required;
};

std::vector<Parameter> parse_parameters(std::string_view text) {
  std::vector<Parameter> parameters;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    std::string_view name = text.substr(0, end);
    const bool required = name.back() == '!';
    if (required) name.remove_suffix(1);
    parameters.push_back({name, required});
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parameters;
}

// Puts named arguments to their parameters' places.
Status bind(Runtime& rt, const Function& function, Args& args) {
  const std::vector<Parameter> parameters = parse_parameters(function.parameters);
  if (args.positional.size() > parameters.size()) {
    return rt.fail("{}: at most {} arguments expected, found {}", function.name, parameters.size(),
                   args.positional.size());
  }
  std::vector<bool> given(parameters.size());
  std::fill_n(given.begin(), args.positional.size(), true);
  args.positional.resize(parameters.size());
  for (auto& [name, value] : args.named) {
    const auto place = std::find_if(parameters.begin(), parameters.end(),
                                    [&name = name](const auto& p) { return p.name == name; });
    const auto index = static_cast<size_t>(place - parameters.begin());
    if (place == parameters.end()) {
      return rt.fail("{}: unknown argument '{}'", function.name, name);
    }
    if (given[index]) return rt.fail("{}: argument '{}' given twice", function.name, name);
    given[index] = true;
    args.positional[index] = std::move(value);
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].required && !given[i]) {
      return rt.fail("{}: argument '{}' is missing", function.name, parameters[i].name);
    }
  }
  return Ok{};
}

}  // namespace

Result<Value> invoke(Runtime& rt, const Function& function, const Value& self, Args args) {
  if (function.parameters != "...") TRY_OK(bind(rt, function, args));
  return function.run(rt, self, args);
}

}  // namespace hf2q::jinja
