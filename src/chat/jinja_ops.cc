#include "chat/jinja_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/quote.h"
#include "chat/jinja_text.h"

namespace hf2q::jinja {
namespace {

// What Python says when an undefined value is used.
Error undefined_error(Runtime& rt, const Value& value) {
  if (value.undefined_name().empty()) return rt.fail("an item that does not exist is used");
  return rt.fail("{} is undefined", quote(value.undefined_name()));
}

Error operand_error(Runtime& rt, std::string_view what, const Value& a, const Value& b) {
  if (a.is(Kind::kUndefined)) return undefined_error(rt, a);
  if (b.is(Kind::kUndefined)) return undefined_error(rt, b);
  return rt.fail("{} is not defined between {} and {}", what, a.type_name(), b.type_name());
}

Result<bool> equal_items(Runtime& rt, const List& a, const List& b) {
  if (a.tuple != b.tuple || a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    TRY(same, equal(rt, a.items[i], b.items[i]));
    if (!same) return false;
  }
  return true;
}

Result<const Value*> find_key(Runtime& rt, const Dict& dict, const Value& key) {
  TRY_OK(rt.spend(dict.entries.size() * 4));
  if (key.is(Kind::kString)) {
    TRY_OK(rt.spend(key.as_string().size()));
    return dict.find(key.as_string());
  }
  if (key.is(Kind::kList) || key.is(Kind::kDict)) {
    return rt.fail("a {} cannot be a key", key.type_name());
  }
  for (const auto& [name, value] : dict.entries) {
    TRY(same, equal(rt, name, key));
    if (same) return &value;
  }
  return nullptr;
}

Result<bool> equal_entries(Runtime& rt, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    TRY(other, find_key(rt, b, key));
    if (other == nullptr) return false;
    TRY(same, equal(rt, value, *other));
    if (!same) return false;
  }
  return true;
}

Result<Value> integer_arithmetic(Runtime& rt, BinaryOp op, int64_t a, int64_t b);

Result<Value> integer_power(Runtime& rt, int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return rt.fail("0 cannot be raised to a negative power");
    return Value::number(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  if (base == 0 || base == 1) return Value::integer(exponent == 0 ? 1 : base);
  if (base == -1) return Value::integer(exponent % 2 == 0 ? 1 : -1);
  int64_t result = 1;
  for (int64_t i = 0; i < exponent; ++i) {  // leaves 64 bits within 63 turns
    if (__builtin_mul_overflow(result, base, &result)) return rt.fail("integer overflow");
  }
  return Value::integer(result);
}

Result<Value> integer_division(Runtime& rt, BinaryOp op, int64_t a, int64_t b) {
  if (b == 0) return rt.fail("division by zero");
  if (op == BinaryOp::kDivide) {
    return Value::number(static_cast<double>(a) / static_cast<double>(b));
  }
  if (b == -1) {  // the quotient of the smallest integer does not fit
    return op == BinaryOp::kModulo ? Value::integer(0)
                                   : integer_arithmetic(rt, BinaryOp::kSubtract, 0, a);
  }
  const bool round_down = a % b != 0 && (a < 0) != (b < 0);
  if (op == BinaryOp::kFloorDivide) return Value::integer(a / b - (round_down ? 1 : 0));
  return Value::integer(a % b + (round_down ? b : 0));
}

Result<Value> integer_arithmetic(Runtime& rt, BinaryOp op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case BinaryOp::kAdd:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case BinaryOp::kSubtract:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case BinaryOp::kMultiply:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case BinaryOp::kPower:
      return integer_power(rt, a, b);
    case BinaryOp::kDivide:
    case BinaryOp::kFloorDivide:
    case BinaryOp::kModulo:
      return integer_division(rt, op, a, b);
  }
  if (overflow) return rt.fail("integer overflow");
  return Value::integer(result);
}

Result<Value> float_arithmetic(Runtime& rt, BinaryOp op, double a, double b) {
  const bool divides =
      op == BinaryOp::kDivide || op == BinaryOp::kFloorDivide || op == BinaryOp::kModulo;
  if (divides && b == 0) return rt.fail("division by zero");
  switch (op) {
    case BinaryOp::kAdd:
      return Value::number(a + b);
    case BinaryOp::kSubtract:
      return Value::number(a - b);
    case BinaryOp::kMultiply:
      return Value::number(a * b);
    case BinaryOp::kDivide:
      return Value::number(a / b);
    case BinaryOp::kFloorDivide:
      return Value::number(std::floor(a / b));
    case BinaryOp::kModulo: {
      const double rest = std::fmod(a, b);
      return Value::number(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
    }
    case BinaryOp::kPower:
      return Value::number(std::pow(a, b));
  }
  return Value::number(0);
}

Result<Value> concatenate(Runtime& rt, const List& a, const List& b) {
  TRY_OK(rt.spend((a.items.size() + b.items.size()) * sizeof(Value)));
  std::vector<Value> items = a.items;
  items.insert(items.end(), b.items.begin(), b.items.end());
  return rt.make_list(std::move(items), a.tuple);
}

Result<Value> repeat(Runtime& rt, const Value& value, int64_t times) {
  const auto n = static_cast<uint64_t>(std::max<int64_t>(times, 0));
  const size_t size =
      value.is(Kind::kString) ? value.as_string().size() : value.as_list().items.size();
  const size_t limit = rt.limits().max_output_bytes / (value.is(Kind::kString) ? 1 : sizeof(Value));
  if (size != 0 && n > limit / size) {
    return rt.fail("a repetition of more than {} bytes", rt.limits().max_output_bytes);
  }
  TRY_OK(rt.spend(n * size));
  if (value.is(Kind::kString)) {
    std::string text;
    text.reserve(n * size);
    for (uint64_t i = 0; i < n && size != 0; ++i) text += value.as_string();
    return rt.make_string(std::move(text));
  }
  const auto& source = value.as_list().items;
  std::vector<Value> items;
  for (uint64_t i = 0; i < n && size != 0; ++i) {
    items.insert(items.end(), source.begin(), source.end());
  }
  return rt.make_list(std::move(items), value.as_list().tuple);
}

// The indices that value[start:stop:step] takes from `size` items, by Python's rules.
struct SliceRange {
  int64_t start, stop, step;
};

Result<SliceRange> slice_range(Runtime& rt, int64_t size, const Value& start, const Value& stop,
                               const Value& step) {
  const auto absent = [](const Value& v) { return v.is(Kind::kNone) || v.is(Kind::kUndefined); };
  for (const Value* bound : {&start, &stop, &step}) {
    if (!absent(*bound) && !bound->is_integral()) {
      return rt.fail("a slice needs integers, found {}", bound->type_name());
    }
  }
  const int64_t by = absent(step) ? 1 : step.as_int();
  if (by == 0) return rt.fail("a slice cannot have step 0");
  const int64_t low = by > 0 ? 0 : -1;
  const int64_t high = by > 0 ? size : size - 1;
  const auto place = [&](const Value& bound, int64_t otherwise) {
    if (absent(bound)) return otherwise;
    const int64_t index = bound.as_int();
    if (index >= 0) return std::min(index, high);
    return std::max(index < -size ? low : index + size, low);
  };
  return SliceRange{place(start, by > 0 ? low : high), place(stop, by > 0 ? high : low), by};
}

std::vector<size_t> slice_indices(const SliceRange& range, size_t size) {
  std::vector<size_t> indices;
  // A step beyond the size takes one item; clamping keeps the sum within bounds.
  const auto n = static_cast<int64_t>(size) + 1;
  const int64_t step = std::clamp(range.step, -n, n);
  for (int64_t i = range.start; step > 0 ? i < range.stop : i > range.stop; i += step) {
    indices.push_back(static_cast<size_t>(i));
  }
  return indices;
}

Result<Value> index_into(Runtime& rt, const Value& container, int64_t index) {
  if (container.is(Kind::kList)) {
    const auto& items = container.as_list().items;
    const auto size = static_cast<int64_t>(items.size());
    if (index < 0) index += size;
    return index >= 0 && index < size ? items[static_cast<size_t>(index)] : Value();
  }
  TRY_OK(rt.spend(container.as_string().size()));
  const std::string_view text = container.as_string();
  const auto size = static_cast<int64_t>(count_code_points(text));
  if (index < 0) index += size;
  if (index < 0 || index >= size) return Value();
  size_t at = 0;
  for (int64_t i = 0; i < index; ++i) at += code_point_bytes(text, at);
  return rt.make_string(std::string(text.substr(at, code_point_bytes(text, at))));
}

Result<Value> loop_attribute(const Loop& loop, std::string_view name) {
  const auto& items = loop.items->items;
  const auto index0 = static_cast<int64_t>(loop.index0);
  const auto length = static_cast<int64_t>(items.size());
  if (name == "index") return Value::integer(index0 + 1);
  if (name == "index0") return Value::integer(index0);
  if (name == "revindex") return Value::integer(length - index0);
  if (name == "revindex0") return Value::integer(length - index0 - 1);
  if (name == "first") return Value::boolean(index0 == 0);
  if (name == "last") return Value::boolean(index0 + 1 == length);
  if (name == "length") return Value::integer(length);
  if (name == "depth") return Value::integer(1);
  if (name == "depth0") return Value::integer(0);
  if (name == "previtem" && index0 > 0) return items[loop.index0 - 1];
  if (name == "nextitem" && index0 + 1 < length) return items[loop.index0 + 1];
  return Value::undefined(name);
}

}  // namespace

Result<bool> equal(Runtime& rt, const Value& a, const Value& b) {
  TRY_OK(rt.spend());
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.as_int() == b.as_int();
    return a.as_double() == b.as_double();
  }
  if (a.kind() != b.kind()) return false;
  if (a.same_object(b)) return true;
  if (a.is(Kind::kString)) {
    if (a.as_string().size() != b.as_string().size()) return false;
    TRY_OK(rt.spend(a.as_string().size()));
    return a.as_string() == b.as_string();
  }
  if (a.is(Kind::kList)) return equal_items(rt, a.as_list(), b.as_list());
  if (a.is(Kind::kDict)) return equal_entries(rt, a.as_dict(), b.as_dict());
  return false;
}

Result<bool> less(Runtime& rt, const Value& a, const Value& b) {
  TRY_OK(rt.spend());
  if (a.is_integral() && b.is_integral()) return a.as_int() < b.as_int();
  if (a.is_number() && b.is_number()) return a.as_double() < b.as_double();
  if (a.is(Kind::kString) && b.is(Kind::kString)) {
    TRY_OK(rt.spend(std::min(a.as_string().size(), b.as_string().size())));
    return a.as_string() < b.as_string();  // bytes of UTF-8 sort as code points do
  }
  if (!a.is(Kind::kList) || !b.is(Kind::kList) || a.as_list().tuple != b.as_list().tuple) {
    return operand_error(rt, "<", a, b);
  }
  const auto& x = a.as_list().items;
  const auto& y = b.as_list().items;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    TRY(same, equal(rt, x[i], y[i]));
    if (!same) return less(rt, x[i], y[i]);
  }
  return x.size() < y.size();
}

Result<bool> contains(Runtime& rt, const Value& container, const Value& item) {
  TRY_OK(rt.spend());
  if (container.is(Kind::kString)) {
    if (!item.is(Kind::kString)) return operand_error(rt, "in", item, container);
    TRY_OK(rt.spend(container.as_string().size() + item.as_string().size()));
    return find(container.as_string(), item.as_string()) != std::string::npos;
  }
  if (container.is(Kind::kDict)) {
    TRY(found, find_key(rt, container.as_dict(), item));
    return found != nullptr;
  }
  if (container.is(Kind::kUndefined)) return false;
  if (!container.is(Kind::kList)) return operand_error(rt, "in", item, container);
  for (const Value& candidate : container.as_list().items) {
    TRY(same, equal(rt, candidate, item));
    if (same) return true;
  }
  return false;
}

Result<Value> binary(Runtime& rt, BinaryOp op, const Value& a, const Value& b) {
  TRY_OK(rt.spend());
  if (a.is_integral() && b.is_integral()) {
    return integer_arithmetic(rt, op, a.as_int(), b.as_int());
  }
  if (a.is_number() && b.is_number()) {
    return float_arithmetic(rt, op, a.as_double(), b.as_double());
  }
  const auto is_sequence = [](const Value& v) { return v.is(Kind::kString) || v.is(Kind::kList); };
  if (op == BinaryOp::kAdd && a.is(Kind::kString) && b.is(Kind::kString)) {
    TRY_OK(rt.spend(a.as_string().size() + b.as_string().size()));
    return rt.make_string(a.as_string() + b.as_string());
  }
  if (op == BinaryOp::kAdd && a.is(Kind::kList) && b.is(Kind::kList) &&
      a.as_list().tuple == b.as_list().tuple) {
    return concatenate(rt, a.as_list(), b.as_list());
  }
  if (op == BinaryOp::kMultiply && is_sequence(a) && b.is_integral()) {
    return repeat(rt, a, b.as_int());
  }
  if (op == BinaryOp::kMultiply && a.is_integral() && is_sequence(b)) {
    return repeat(rt, b, a.as_int());
  }
  if (op == BinaryOp::kModulo && a.is(Kind::kString)) {
    const bool several = b.is(Kind::kList) && b.as_list().tuple;
    return format_percent(rt, a.as_string(), several ? b.as_list().items : std::vector<Value>{b});
  }
  static constexpr std::string_view kNames[] = {"+", "-", "*", "/", "//", "%", "**"};
  return operand_error(rt, kNames[static_cast<size_t>(op)], a, b);
}

Result<Value> negate(Runtime& rt, const Value& value) {
  if (value.is(Kind::kFloat)) return Value::number(-value.as_double());
  return binary(rt, BinaryOp::kSubtract, Value::integer(0), value);
}

Result<std::shared_ptr<const List>> items_of(Runtime& rt, const Value& value) {
  if (value.is(Kind::kList)) return value.shared_list();
  std::vector<Value> items;
  if (value.is(Kind::kDict)) {
    for (const auto& [key, unused] : value.as_dict().entries) items.push_back(key);
  } else if (value.is(Kind::kString)) {
    TRY_OK(rt.spend(16 * value.as_string().size()));
    for (const std::string_view one : code_points(value.as_string())) {
      TRY(item, rt.make_string(std::string(one)));
      items.push_back(std::move(item));
    }
  } else if (!value.is(Kind::kUndefined)) {
    return rt.fail("a value of type {} cannot be iterated over", value.type_name());
  }
  TRY(list, rt.make_list(std::move(items)));
  return list.shared_list();
}

Result<int64_t> length_of(Runtime& rt, const Value& value) {
  if (value.is(Kind::kUndefined)) return int64_t{0};
  if (value.is(Kind::kList)) return static_cast<int64_t>(value.as_list().items.size());
  if (value.is(Kind::kDict)) return static_cast<int64_t>(value.as_dict().entries.size());
  if (!value.is(Kind::kString))
    return rt.fail("a value of type {} has no length", value.type_name());
  TRY_OK(rt.spend(value.as_string().size()));
  return static_cast<int64_t>(count_code_points(value.as_string()));
}

Result<Value> get_item(Runtime& rt, const Value& container, const Value& key) {
  TRY_OK(rt.spend());
  if (container.is(Kind::kUndefined)) return undefined_error(rt, container);
  if (container.is(Kind::kDict)) {
    TRY(found, find_key(rt, container.as_dict(), key));
    if (found != nullptr) return *found;
  }
  const bool indexed = container.is(Kind::kList) || container.is(Kind::kString);
  if (indexed && key.is_integral()) return index_into(rt, container, key.as_int());
  if (!key.is(Kind::kString)) return Value();
  const Function* method = find_method(container.kind(), key.as_string());
  if (method == nullptr && !container.is(Kind::kDict)) {
    return get_attribute(rt, container, key.as_string());
  }
  if (method == nullptr) return Value::undefined(key.as_string());
  return function_value(method, container);
}

Result<Value> get_attribute(Runtime& rt, const Value& value, std::string_view name) {
  TRY_OK(rt.spend());
  if (value.is(Kind::kUndefined)) return undefined_error(rt, value);
  if (const Function* method = find_method(value.kind(), name)) {
    return function_value(method, value);
  }
  if (value.is(Kind::kDict)) {
    TRY_OK(rt.spend(value.as_dict().entries.size() * 4));
    const Value* found = value.as_dict().find(name);
    if (found != nullptr) return *found;
  }
  if (value.is(Kind::kNamespace)) {
    for (const auto& [key, attribute] : value.as_namespace().attributes) {
      if (key == name) return attribute;
    }
  }
  if (value.is(Kind::kLoop)) return loop_attribute(value.as_loop(), name);
  if (value.is(Kind::kList) && value.as_list().group) {
    if (name == "grouper") return value.as_list().items[0];
    if (name == "list") return value.as_list().items[1];
  }
  return Value::undefined(name);
}

Result<Value> slice(Runtime& rt, const Value& value, const Value& start, const Value& stop,
                    const Value& step) {
  if (value.is(Kind::kUndefined)) return undefined_error(rt, value);
  if (!value.is(Kind::kString) && !value.is(Kind::kList)) {
    return rt.fail("a value of type {} cannot be sliced", value.type_name());
  }
  TRY(size, length_of(rt, value));
  TRY(range, slice_range(rt, size, start, stop, step));
  TRY_OK(rt.spend(24 * static_cast<size_t>(size)));
  const std::vector<size_t> indices = slice_indices(range, static_cast<size_t>(size));
  if (value.is(Kind::kString)) {
    const auto pieces = code_points(value.as_string());
    std::string text;
    for (const size_t index : indices) text += pieces[index];
    return rt.make_string(std::move(text));
  }
  std::vector<Value> items;
  items.reserve(indices.size());
  for (const size_t index : indices) items.push_back(value.as_list().items[index]);
  return rt.make_list(std::move(items), value.as_list().tuple);
}

}  // namespace hf2q::jinja
