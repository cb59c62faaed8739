#pragma once
// Python's operators over Values. All spend the budget of `rt` by what they handle; their errors
// are Python's TypeErrors and ValueErrors.

#include <memory>
#include <string>
#include <string_view>

#include "chat/jinja_runtime.h"

namespace hf2q::jinja {

// str(value) and repr(value), appended to `out`, which stays within the limit of output.
Status append_str(Runtime& rt, const Value& value, std::string& out);
Status append_repr(Runtime& rt, const Value& value, std::string& out);
Result<std::string> str_of(Runtime& rt, const Value& value);
// Python's repr of a float: the shortest digits that give it back, with an exponent below 1e-4 and
// from 1e16 on.
std::string float_text(double value);

struct JsonStyle {
  int indent = -1;  // spaces per level; negative: one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool ensure_ascii = false;
  bool sort_keys = false;
};
Result<std::string> json_text(Runtime& rt, const Value& value, const JsonStyle& style);

Result<bool> equal(Runtime& rt, const Value& a, const Value& b);
Result<bool> less(Runtime& rt, const Value& a, const Value& b);
Result<bool> contains(Runtime& rt, const Value& container, const Value& item);

enum class BinaryOp { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
Result<Value> binary(Runtime& rt, BinaryOp op, const Value& a, const Value& b);
Result<Value> negate(Runtime& rt, const Value& value);

// The items of a list, keys of a dict, code points of a string; none of an undefined value.
Result<std::shared_ptr<const List>> items_of(Runtime& rt, const Value& value);
Result<int64_t> length_of(Runtime& rt, const Value& value);
// container[key]; undefined where it is absent.
Result<Value> get_item(Runtime& rt, const Value& container, const Value& key);
// value.name: a method, else the item of that name.
Result<Value> get_attribute(Runtime& rt, const Value& value, std::string_view name);
// value[start:stop:step]; none or undefined bounds mean the ends.
Result<Value> slice(Runtime& rt, const Value& value, const Value& start, const Value& stop,
                    const Value& step);
// `text % values`, with %s, %r, %d, %i, %x, %f and flags, width and precision.
Result<Value> format_percent(Runtime& rt, std::string_view text, const std::vector<Value>& values);
// text.format(arguments): {} {0} {name}, each with !s or !r and a format
// [[fill]align][sign][0][width][,][.precision][s d x f %].
Result<Value> format_fields(Runtime& rt, std::string_view text, const Args& args);

}  // namespace hf2q::jinja
