// The methods of strings, lists and dicts, and the global functions.

#include <algorithm>

#include "base/quote.h"
#include "chat/jinja_ops.h"
#include "chat/jinja_text.h"

namespace hf2q::jinja {
namespace {

Result<Value> new_strings(Runtime& rt, const std::vector<std::string_view>& pieces) {
  std::vector<Value> items;
  for (const std::string_view piece : pieces) {
    TRY(item, rt.copy_string(piece));
    items.push_back(std::move(item));
  }
  return rt.make_list(std::move(items));
}

Result<std::string_view> text_argument(Runtime& rt, const Value& value) {
  if (value.is(Kind::kString)) return std::string_view(value.as_string());
  return rt.fail("a string expected, found {}", value.type_name());
}

// A count where -1, none and absence mean all.
Result<size_t> count_argument(Runtime& rt, const Value& value) {
  if (!value.given()) return SIZE_MAX;
  if (!value.is_integral()) return rt.fail("an integer expected, found {}", value.type_name());
  return value.as_int() < 0 ? SIZE_MAX : static_cast<size_t>(value.as_int());
}

// ---- str ----

template <bool kLeft, bool kRight>
Result<Value> str_strip(Runtime& rt, const Value& self, const Args& args) {
  std::string_view text = self.as_string();
  if (!args.positional[0].given()) {
    if (kLeft) text = strip_left(text);
    if (kRight) text = strip_right(text);
    return rt.copy_string(text);
  }
  TRY(chars, text_argument(rt, args.positional[0]));
  TRY_OK(rt.spend(text.size() * (chars.size() / 16 + 1)));
  if (kLeft) text = strip_left(text, chars);
  if (kRight) text = strip_right(text, chars);
  return rt.copy_string(text);
}

template <std::string (*kMap)(std::string_view)>
Result<Value> str_map(Runtime& rt, const Value& self, const Args&) {
  TRY_OK(rt.spend(self.as_string().size()));
  return rt.make_string(kMap(self.as_string()));
}

bool is_letter(char32_t c) {
  return to_lower(c) != c || to_upper(c) != c;
}
bool is_digit(char32_t c) {
  return c >= '0' && c <= '9';
}

// Words begin after whatever is no letter.
std::string title(std::string_view text) {
  std::string out;
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    const std::string_view one = text.substr(at, code_point_bytes(text, at));
    out += in_word ? lower(one) : upper(one);
    in_word = is_letter(decode_code_point(one));
    at += one.size();
  }
  return out;
}

// True where the text is not empty and each code point passes.
template <bool (*kTest)(char32_t)>
Result<Value> str_all(Runtime& rt, const Value& self, const Args&) {
  const std::string_view text = self.as_string();
  TRY_OK(rt.spend(text.size()));
  for (size_t at = 0; at < text.size(); at += code_point_bytes(text, at)) {
    if (!kTest(decode_code_point(text.substr(at, code_point_bytes(text, at))))) {
      return Value::boolean(false);
    }
  }
  return Value::boolean(!text.empty());
}

bool is_alphanumeric(char32_t c) {
  return is_letter(c) || is_digit(c);
}

template <std::string (*kMap)(std::string_view), std::string (*kOther)(std::string_view)>
Result<Value> str_cased(Runtime& rt, const Value& self, const Args&) {
  TRY_OK(rt.spend(self.as_string().size()));
  const std::string& text = self.as_string();
  return Value::boolean(kMap(text) == text && kOther(text) != text);
}

Result<Value> str_split(Runtime& rt, const Value& self, const Args& args) {
  const std::string_view text = self.as_string();
  TRY(limit, count_argument(rt, args.positional[1]));
  if (!args.positional[0].given()) {
    TRY_OK(rt.spend(16 * text.size()));
    return new_strings(rt, split_space(text, limit));
  }
  TRY(separator, text_argument(rt, args.positional[0]));
  if (separator.empty()) return rt.fail("split: the separator is empty");
  TRY_OK(rt.spend(text.size()));
  TRY_OK(rt.spend(16 * count(text, separator)));
  return new_strings(rt, split(text, separator, limit));
}

Result<Value> str_rsplit(Runtime& rt, const Value& self, const Args& args) {
  const std::string_view text = self.as_string();
  TRY(limit, count_argument(rt, args.positional[1]));
  TRY(separator, text_argument(rt, args.positional[0]));
  if (separator.empty()) return rt.fail("rsplit: the separator is empty");
  // Searching backwards may look at each byte of the separator for each byte of the text.
  TRY_OK(rt.spend(text.size()));
  TRY_OK(rt.spend(text.size() * std::min<size_t>(separator.size(), 1 << 20)));
  TRY_OK(rt.spend(16 * count(text, separator)));
  return new_strings(rt, split_right(text, separator, limit));
}

// Before the first separator (or the last), the separator, and behind it.
template <bool kRight>
Result<Value> str_partition(Runtime& rt, const Value& self, const Args& args) {
  const std::string_view text = self.as_string();
  TRY(separator, text_argument(rt, args.positional[0]));
  if (separator.empty()) return rt.fail("partition: the separator is empty");
  TRY_OK(rt.spend(text.size()));
  if (kRight) TRY_OK(rt.spend(text.size() * std::min<size_t>(separator.size(), 1 << 20)));
  std::vector<std::string_view> pieces =
      kRight ? split_right(text, separator, 1) : split(text, separator, 1);
  if (pieces.size() == 2) {
    pieces.insert(pieces.begin() + 1, separator);
  } else {
    pieces.insert(kRight ? pieces.begin() : pieces.end(), 2, std::string_view());
  }
  TRY(list, new_strings(rt, pieces));
  return rt.make_list(list.as_list().items, true);
}

Result<Value> str_expandtabs(Runtime& rt, const Value& self, const Args& args) {
  const Value& given = args.positional[0];
  if (given.given() && !given.is_integral()) {
    return rt.fail("expandtabs: an integer expected, found {}", given.type_name());
  }
  const int64_t size = given.given() ? std::max<int64_t>(given.as_int(), 0) : 8;
  if (size > 1000) return rt.fail("expandtabs: at most 1000 columns expected, found {}", size);
  const std::string& text = self.as_string();
  TRY_OK(rt.spend(16 * text.size()));
  const size_t tabs = count(text, "\t");
  if (tabs * static_cast<size_t>(size) > rt.limits().max_output_bytes) {
    return rt.fail("expandtabs: more than {} bytes", rt.limits().max_output_bytes);
  }
  return rt.make_string(expand_tabs(text, static_cast<size_t>(size)));
}

Result<Value> str_format(Runtime& rt, const Value& self, const Args& args) {
  return format_fields(rt, self.as_string(), args);
}

Result<Value> str_splitlines(Runtime& rt, const Value& self, const Args& args) {
  TRY_OK(rt.spend(16 * self.as_string().size()));
  return new_strings(rt, split_lines(self.as_string(), args.positional[0].truthy()));
}

template <bool (*kTest)(std::string_view, std::string_view)>
Result<Value> str_affix(Runtime& rt, const Value& self, const Args& args) {
  const Value& affix = args.positional[0];
  if (affix.is(Kind::kString)) {
    TRY_OK(rt.spend(affix.as_string().size()));
    return Value::boolean(kTest(self.as_string(), affix.as_string()));
  }
  if (!affix.is(Kind::kList)) return rt.fail("a string expected, found {}", affix.type_name());
  for (const Value& one : affix.as_list().items) {
    TRY(text, text_argument(rt, one));
    TRY_OK(rt.spend(text.size()));
    if (kTest(self.as_string(), text)) return Value::boolean(true);
  }
  return Value::boolean(false);
}

bool has_prefix(std::string_view text, std::string_view prefix) {
  return text.starts_with(prefix);
}
bool has_suffix(std::string_view text, std::string_view suffix) {
  return text.ends_with(suffix);
}

Result<Value> str_removeprefix(Runtime& rt, const Value& self, const Args& args) {
  std::string_view text = self.as_string();
  TRY(prefix, text_argument(rt, args.positional[0]));
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  return rt.copy_string(text);
}

Result<Value> str_removesuffix(Runtime& rt, const Value& self, const Args& args) {
  std::string_view text = self.as_string();
  TRY(suffix, text_argument(rt, args.positional[0]));
  if (text.ends_with(suffix)) text.remove_suffix(suffix.size());
  return rt.copy_string(text);
}

Result<Value> str_replace(Runtime& rt, const Value& self, const Args& args) {
  const std::string_view text = self.as_string();
  TRY(old, text_argument(rt, args.positional[0]));
  TRY(with, text_argument(rt, args.positional[1]));
  TRY(limit, count_argument(rt, args.positional[2]));
  TRY_OK(rt.spend(text.size()));
  const size_t hits = std::min(limit, old.empty() ? count_code_points(text) + 1 : count(text, old));
  if (!with.empty() && hits > rt.limits().max_output_bytes / with.size()) {
    return rt.fail("replace: more than {} bytes", rt.limits().max_output_bytes);
  }
  TRY_OK(rt.spend(hits * with.size()));
  return rt.make_string(replace(text, old, with, limit));
}

// The number of code points before the first hit, or -1.
Result<Value> str_find(Runtime& rt, const Value& self, const Args& args) {
  const std::string_view text = self.as_string();
  TRY(needle, text_argument(rt, args.positional[0]));
  TRY_OK(rt.spend(text.size() + needle.size()));
  const size_t at = find(text, needle);
  if (at == text.npos) return Value::integer(-1);
  return Value::integer(static_cast<int64_t>(count_code_points(text.substr(0, at))));
}

Result<Value> str_index(Runtime& rt, const Value& self, const Args& args) {
  TRY(at, str_find(rt, self, args));
  if (at.as_int() < 0) return rt.fail("index: the substring is not there");
  return at;
}

Result<Value> str_count(Runtime& rt, const Value& self, const Args& args) {
  const std::string_view text = self.as_string();
  TRY(needle, text_argument(rt, args.positional[0]));
  TRY_OK(rt.spend(text.size() + needle.size()));
  const size_t n = needle.empty() ? count_code_points(text) + 1 : count(text, needle);
  return Value::integer(static_cast<int64_t>(n));
}

Result<Value> str_join(Runtime& rt, const Value& self, const Args& args) {
  TRY(items, items_of(rt, args.positional[0]));
  std::string out;
  for (size_t i = 0; i < items->items.size(); ++i) {
    TRY_OK(text_argument(rt, items->items[i]));
    if (i > 0) TRY_OK(append_str(rt, self, out));
    TRY_OK(append_str(rt, items->items[i], out));
  }
  return rt.make_string(std::move(out));
}

// ---- list, dict ----

Result<Value> list_index(Runtime& rt, const Value& self, const Args& args) {
  const auto& items = self.as_list().items;
  for (size_t i = 0; i < items.size(); ++i) {
    TRY(same, equal(rt, items[i], args.positional[0]));
    if (same) return Value::integer(static_cast<int64_t>(i));
  }
  return rt.fail("index: the item is not in the list");
}

Result<Value> list_count(Runtime& rt, const Value& self, const Args& args) {
  int64_t n = 0;
  for (const Value& item : self.as_list().items) {
    TRY(same, equal(rt, item, args.positional[0]));
    if (same) ++n;
  }
  return Value::integer(n);
}

Result<Value> copy(Runtime&, const Value& self, const Args&) {
  return self;
}

Result<Value> dict_get(Runtime& rt, const Value& self, const Args& args) {
  TRY(found, contains(rt, self, args.positional[0]));
  if (found) return get_item(rt, self, args.positional[0]);
  return args.positional[1].is(Kind::kUndefined) ? Value::none() : args.positional[1];
}

Result<Value> dict_keys(Runtime& rt, const Value& self, const Args&) {
  TRY(keys, items_of(rt, self));
  return Value::list(std::move(keys));
}

Result<Value> dict_values(Runtime& rt, const Value& self, const Args&) {
  std::vector<Value> values;
  for (const auto& [unused, value] : self.as_dict().entries) values.push_back(value);
  return rt.make_list(std::move(values));
}

Result<Value> dict_items(Runtime& rt, const Value& self, const Args&) {
  return invoke(rt, *find_filter("items"), self, {});
}

Result<Value> refuse_change(Runtime& rt, const Value& self, const Args&) {
  return rt.fail("a {} cannot be changed by a template", self.type_name());
}

// ---- loop ----

Result<Value> loop_cycle(Runtime& rt, const Value& self, const Args& args) {
  if (args.positional.empty()) return rt.fail("cycle: no items");
  return args.positional[self.as_loop().index0 % args.positional.size()];
}

// Whether the arguments are others than at the last call in this loop.
Result<Value> loop_changed(Runtime& rt, const Value& self, const Args& args) {
  TRY(now, rt.make_list(args.positional, true));
  Value& last = *self.as_loop().last_changed;
  bool same = !last.is(Kind::kUndefined);
  if (same) {
    TRY(still, equal(rt, last, now));
    same = still;
  }
  if (!same) last = std::move(now);
  return Value::boolean(!same);
}

// ---- globals ----

Result<Value> global_range(Runtime& rt, const Value&, const Args& args) {
  for (const Value& bound : args.positional) {
    if (!bound.is(Kind::kUndefined) && !bound.is_integral()) {
      return rt.fail("range: an integer expected, found {}", bound.type_name());
    }
  }
  const bool one = args.positional[1].is(Kind::kUndefined);
  const int64_t start = one ? 0 : args.positional[0].as_int();
  const int64_t stop = args.positional[one ? 0 : 1].as_int();
  const int64_t step = args.positional[2].is(Kind::kUndefined) ? 1 : args.positional[2].as_int();
  if (step == 0) return rt.fail("range: step 0");
  constexpr int64_t kMost = 100'000;  // as in Jinja's sandbox
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<int64_t>(items.size()) == kMost)
      return rt.fail("range: more than {} items", kMost);
    items.push_back(Value::integer(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  TRY_OK(rt.spend(items.size() * sizeof(Value)));
  return rt.make_list(std::move(items));
}

using Entries = std::vector<std::pair<Value, Value>>;

// The entries of positional dicts, then the named arguments; later ones replace earlier ones.
Result<Entries> merged_entries(Runtime& rt, const Args& args) {
  Entries entries;
  const auto put = [&](const Value& key, const Value& value) -> Status {
    TRY_OK(rt.spend(entries.size() * 4));
    for (auto& [name, old] : entries) {
      TRY(same, equal(rt, name, key));
      if (!same) continue;
      old = value;
      return Ok{};
    }
    entries.emplace_back(key, value);
    return Ok{};
  };
  for (const Value& dict : args.positional) {
    if (!dict.is(Kind::kDict)) return rt.fail("a mapping expected, found {}", dict.type_name());
    for (const auto& [key, value] : dict.as_dict().entries) TRY_OK(put(key, value));
  }
  for (const auto& [name, value] : args.named) {
    TRY(key, rt.make_string(name));
    TRY_OK(put(key, value));
  }
  return entries;
}

Result<Value> global_dict(Runtime& rt, const Value&, const Args& args) {
  TRY(entries, merged_entries(rt, args));
  return rt.make_dict(std::move(entries));
}

Result<Value> global_namespace(Runtime& rt, const Value&, const Args& args) {
  TRY(entries, merged_entries(rt, args));
  TRY_OK(rt.spend(256));
  Namespace& space = rt.make_namespace();
  for (auto& [key, value] : entries) {
    TRY(name, text_argument(rt, key));
    space.attributes.emplace_back(std::string(name), value);
  }
  return Value::space(&space);
}

Result<Value> global_raise(Runtime& rt, const Value&, const Args& args) {
  TRY(message, str_of(rt, args.positional[0]));
  // The template's own words, fit for a terminal or a log.
  constexpr size_t kMaxBytes = 1000;
  std::string printable;
  for (const char c : message.substr(0, kMaxBytes)) {
    printable += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? ' ' : c;
  }
  return rt.fail("{}", printable);
}

Result<Value> global_strftime(Runtime& rt, const Value&, const Args& args) {
  TRY(text, text_argument(rt, args.positional[0]));
  if (!rt.options().now) return rt.fail("strftime_now: no date was given");
  const std::string format(text.substr(0, text.find('\0')));
  for (size_t at = format.find('%'); at != format.npos; at = format.find('%', at)) {
    at += format.compare(at + 1, 1, "-") == 0 ? 2 : 1;
    if (at >= format.size() ||
        std::string_view("aAbBcdHIjmMpSUwWxXyYZ%").find(format[at]) == format.npos) {
      return rt.fail("strftime_now: unknown conversion in {}", quote(format));
    }
    ++at;
  }
  char buffer[512];
  const size_t bytes = std::strftime(buffer, sizeof(buffer), format.c_str(), &*rt.options().now);
  if (bytes == 0 && !format.empty()) return rt.fail("strftime_now: format too long");
  return rt.make_string(std::string(buffer, bytes));
}

struct Method {
  Kind kind;
  Function function;
};
constexpr Method kMethods[] = {
    {Kind::kString, {"strip", "chars", str_strip<true, true>}},
    {Kind::kString, {"lstrip", "chars", str_strip<true, false>}},
    {Kind::kString, {"rstrip", "chars", str_strip<false, true>}},
    {Kind::kString, {"split", "sep maxsplit", str_split}},
    {Kind::kString, {"rsplit", "sep! maxsplit", str_rsplit}},
    {Kind::kString, {"splitlines", "keepends", str_splitlines}},
    {Kind::kString, {"partition", "sep!", str_partition<false>}},
    {Kind::kString, {"rpartition", "sep!", str_partition<true>}},
    {Kind::kString, {"expandtabs", "tabsize", str_expandtabs}},
    {Kind::kString, {"format", "...", str_format}},
    {Kind::kString, {"upper", "", str_map<upper>}},
    {Kind::kString, {"lower", "", str_map<lower>}},
    {Kind::kString, {"capitalize", "", str_map<capitalize>}},
    {Kind::kString, {"title", "", str_map<title>}},
    {Kind::kString, {"swapcase", "", str_map<swap_case>}},
    {Kind::kString, {"casefold", "", str_map<fold_case>}},
    {Kind::kString, {"startswith", "prefix!", str_affix<has_prefix>}},
    {Kind::kString, {"endswith", "suffix!", str_affix<has_suffix>}},
    {Kind::kString, {"removeprefix", "prefix!", str_removeprefix}},
    {Kind::kString, {"removesuffix", "suffix!", str_removesuffix}},
    {Kind::kString, {"replace", "old! new! count", str_replace}},
    {Kind::kString, {"find", "sub!", str_find}},
    {Kind::kString, {"index", "sub!", str_index}},
    {Kind::kString, {"count", "sub!", str_count}},
    {Kind::kString, {"join", "iterable!", str_join}},
    {Kind::kString, {"isalnum", "", str_all<is_alphanumeric>}},
    {Kind::kString, {"isalpha", "", str_all<is_letter>}},
    {Kind::kString, {"isdigit", "", str_all<is_digit>}},
    {Kind::kString, {"isnumeric", "", str_all<is_digit>}},
    {Kind::kString, {"isspace", "", str_all<is_space>}},
    {Kind::kString, {"islower", "", str_cased<lower, upper>}},
    {Kind::kString, {"isupper", "", str_cased<upper, lower>}},
    {Kind::kList, {"index", "value!", list_index}},
    {Kind::kList, {"count", "value!", list_count}},
    {Kind::kList, {"copy", "", copy}},
    {Kind::kList, {"append", "...", refuse_change}},
    {Kind::kList, {"extend", "...", refuse_change}},
    {Kind::kList, {"insert", "...", refuse_change}},
    {Kind::kList, {"pop", "...", refuse_change}},
    {Kind::kDict, {"get", "key! default", dict_get}},
    {Kind::kDict, {"keys", "", dict_keys}},
    {Kind::kDict, {"values", "", dict_values}},
    {Kind::kDict, {"items", "", dict_items}},
    {Kind::kDict, {"copy", "", copy}},
    {Kind::kLoop, {"changed", "...", loop_changed}},
    {Kind::kLoop, {"cycle", "...", loop_cycle}},
};

constexpr Function kGlobals[] = {
    {"dict", "...", global_dict},
    {"namespace", "...", global_namespace},
    {"raise_exception", "message!", global_raise},
    {"range", "start! stop step", global_range},
    {"strftime_now", "format!", global_strftime},
};

}  // namespace

const Function* find_method(Kind kind, std::string_view name) {
  const auto* found = std::find_if(std::begin(kMethods), std::end(kMethods), [&](const Method& m) {
    return m.kind == kind && m.function.name == name;
  });
  return found == std::end(kMethods) ? nullptr : &found->function;
}

const Function* find_global(std::string_view name) {
  const auto* found = std::find_if(std::begin(kGlobals), std::end(kGlobals),
                                   [name](const Function& f) { return f.name == name; });
  return found == std::end(kGlobals) ? nullptr : found;
}

}  // namespace hf2q::jinja
