#include "chat/jinja_value.h"

#include <algorithm>

namespace hf2q::jinja {

Value Value::undefined(std::string_view name) {
  return Value(std::make_shared<const Undefined>(Undefined{std::string(name)}));
}

std::string_view Value::undefined_name() const {
  const auto& shared = std::get<0>(state_);
  return shared == nullptr ? std::string_view() : shared->name;
}

int64_t Value::as_int() const {
  return is(Kind::kBool) ? static_cast<int64_t>(as_bool()) : std::get<int64_t>(state_);
}

double Value::as_double() const {
  return is(Kind::kFloat) ? std::get<double>(state_) : static_cast<double>(as_int());
}

bool Value::truthy() const {
  switch (kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return as_int() != 0;
    case Kind::kFloat:
      return as_double() != 0;
    case Kind::kString:
      return !as_string().empty();
    case Kind::kList:
      return !as_list().items.empty();
    case Kind::kDict:
      return !as_dict().entries.empty();
    case Kind::kNamespace:
    case Kind::kLoop:
    case Kind::kCallable:
      return true;
  }
  return true;
}

size_t Value::depth() const {
  if (is(Kind::kList)) return as_list().depth;
  if (is(Kind::kDict)) return as_dict().depth;
  if (is(Kind::kLoop)) return as_loop().items->depth + 1;
  if (is(Kind::kCallable)) return as_callable().self.depth() + 1;
  return 0;
}

std::string_view Value::type_name() const {
  static constexpr std::string_view kNames[] = {"Undefined", "NoneType",    "bool",    "int",
                                                "float",     "str",         "list",    "dict",
                                                "Namespace", "LoopContext", "function"};
  if (is(Kind::kList) && as_list().tuple) return "tuple";
  return kNames[static_cast<size_t>(kind())];
}

bool Value::same_object(const Value& other) const {
  if (kind() != other.kind()) return false;
  if (is(Kind::kUndefined) || is(Kind::kNone)) return true;
  return state_ == other.state_;
}

const Value* Dict::find(std::string_view key) const {
  const auto found = std::find_if(entries.begin(), entries.end(), [key](const auto& entry) {
    return entry.first.is(Kind::kString) && entry.first.as_string() == key;
  });
  return found == entries.end() ? nullptr : &found->second;
}

Value function_value(const Function* function, Value self) {
  return Value::callable(
      std::make_shared<const Callable>(Callable{function, std::move(self), nullptr, 0, 0}));
}

Value macro_value(const Stmt* macro, size_t frame, uint64_t frame_id) {
  return Value::callable(
      std::make_shared<const Callable>(Callable{nullptr, Value(), macro, frame, frame_id}));
}

}  // namespace hf2q::jinja
