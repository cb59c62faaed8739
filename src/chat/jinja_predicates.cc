// The tests of Jinja: {{ value is name(arguments) }}.

#include <algorithm>

#include "chat/jinja_ops.h"
#include "chat/jinja_text.h"

namespace hf2q::jinja {
namespace {

template <Kind... kKinds>
Result<Value> is_kind(Runtime&, const Value& self, const Args&) {
  return Value::boolean((self.is(kKinds) || ...));
}

template <Kind... kKinds>
Result<Value> is_not_kind(Runtime&, const Value& self, const Args&) {
  return Value::boolean(!(self.is(kKinds) || ...));
}

template <bool kValue>
Result<Value> is_constant(Runtime&, const Value& self, const Args&) {
  return Value::boolean(self.is(Kind::kBool) && self.as_bool() == kValue);
}

template <int64_t kRest>
Result<Value> has_rest(Runtime& rt, const Value& self, const Args&) {
  TRY(rest, binary(rt, BinaryOp::kModulo, self, Value::integer(2)));
  TRY(same, equal(rt, rest, Value::integer(kRest)));
  return Value::boolean(same);
}

Result<Value> is_divisible(Runtime& rt, const Value& self, const Args& args) {
  TRY(rest, binary(rt, BinaryOp::kModulo, self, args.positional[0]));
  TRY(same, equal(rt, rest, Value::integer(0)));
  return Value::boolean(same);
}

template <bool kWanted>
Result<Value> is_equal(Runtime& rt, const Value& self, const Args& args) {
  TRY(same, equal(rt, self, args.positional[0]));
  return Value::boolean(same == kWanted);
}

// self < other, or with the sides exchanged, or the opposite of either.
template <bool kSwap, bool kNegate>
Result<Value> is_ordered(Runtime& rt, const Value& self, const Args& args) {
  const Value& other = args.positional[0];
  TRY(before, kSwap ? less(rt, other, self) : less(rt, self, other));
  return Value::boolean(before != kNegate);
}

Result<Value> is_in(Runtime& rt, const Value& self, const Args& args) {
  TRY(found, contains(rt, args.positional[0], self));
  return Value::boolean(found);
}

Result<Value> is_same(Runtime&, const Value& self, const Args& args) {
  return Value::boolean(self.same_object(args.positional[0]));
}

template <std::string (*kMap)(std::string_view), std::string (*kOther)(std::string_view)>
Result<Value> is_cased(Runtime& rt, const Value& self, const Args&) {
  TRY(text, str_of(rt, self));
  TRY_OK(rt.spend(text.size()));
  return Value::boolean(kMap(text) == text && kOther(text) != text);
}

template <const Function* (*kFind)(std::string_view)>
Result<Value> is_known(Runtime& rt, const Value& self, const Args&) {
  TRY(name, str_of(rt, self));
  return Value::boolean(kFind(name) != nullptr);
}

constexpr Function kTests[] = {
    {"!=", "other!", is_equal<false>},
    {"<", "other!", is_ordered<false, false>},
    {"<=", "other!", is_ordered<true, true>},
    {"==", "other!", is_equal<true>},
    {">", "other!", is_ordered<true, false>},
    {">=", "other!", is_ordered<false, true>},
    {"boolean", "", is_kind<Kind::kBool>},
    {"callable", "", is_kind<Kind::kCallable, Kind::kUndefined>},
    {"defined", "", is_not_kind<Kind::kUndefined>},
    {"divisibleby", "num!", is_divisible},
    {"eq", "other!", is_equal<true>},
    {"equalto", "other!", is_equal<true>},
    {"even", "", has_rest<0>},
    {"false", "", is_constant<false>},
    {"filter", "", is_known<find_filter>},
    {"float", "", is_kind<Kind::kFloat>},
    {"ge", "other!", is_ordered<false, true>},
    {"greaterthan", "other!", is_ordered<true, false>},
    {"gt", "other!", is_ordered<true, false>},
    {"in", "seq!", is_in},
    {"integer", "", is_kind<Kind::kInt>},
    {"iterable", "", is_kind<Kind::kString, Kind::kList, Kind::kDict, Kind::kUndefined>},
    {"le", "other!", is_ordered<true, true>},
    {"lessthan", "other!", is_ordered<false, false>},
    {"lower", "", is_cased<lower, upper>},
    {"lt", "other!", is_ordered<false, false>},
    {"mapping", "", is_kind<Kind::kDict>},
    {"ne", "other!", is_equal<false>},
    {"none", "", is_kind<Kind::kNone>},
    {"number", "", is_kind<Kind::kBool, Kind::kInt, Kind::kFloat>},
    {"odd", "", has_rest<1>},
    {"sameas", "other!", is_same},
    {"sequence", "", is_kind<Kind::kString, Kind::kList, Kind::kDict, Kind::kUndefined>},
    {"string", "", is_kind<Kind::kString>},
    {"test", "", is_known<find_test>},
    {"true", "", is_constant<true>},
    {"undefined", "", is_kind<Kind::kUndefined>},
    {"upper", "", is_cased<upper, lower>},
};

}  // namespace

const Function* find_test(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTests), std::end(kTests),
                                   [name](const Function& f) { return f.name == name; });
  return found == std::end(kTests) ? nullptr : found;
}

}  // namespace hf2q::jinja
