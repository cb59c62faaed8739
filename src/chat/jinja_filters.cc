// The filters: {{ value | name(arguments) }}.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/quote.h"
#include "chat/jinja_ops.h"
#include "chat/jinja_text.h"

namespace hf2q::jinja {
namespace {

using ListPtr = std::shared_ptr<const List>;

Result<int64_t> integer_or(Runtime& rt, const Value& value, int64_t otherwise) {
  if (!value.given()) return otherwise;
  if (!value.is_integral()) return rt.fail("an integer expected, found {}", value.type_name());
  return value.as_int();
}

// `item` itself, or what the dotted path `attribute` leads to.
Result<Value> attribute_of(Runtime& rt, const Value& item, const Value& attribute) {
  if (!attribute.given()) return item;
  if (attribute.is_integral()) return get_item(rt, item, attribute);
  if (!attribute.is(Kind::kString)) return rt.fail("an attribute's name must be a string");
  Value at = item;
  for (const std::string_view part : split(attribute.as_string(), ".", SIZE_MAX)) {
    int64_t index = 0;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool number = !part.empty() && parsed.ec == std::errc() && parsed.ptr == part.end();
    TRY(next, get_item(rt, at, number ? Value::integer(index) : Value::string(std::string(part))));
    at = std::move(next);
  }
  return at;
}

// What sort, min, max and unique compare: text without regard to case, unless it is asked for.
Result<Value> sort_key(Runtime& rt, const Value& item, const Value& attribute,
                       bool case_sensitive) {
  TRY(key, attribute_of(rt, item, attribute));
  if (case_sensitive || !key.is(Kind::kString)) return key;
  TRY_OK(rt.spend(key.as_string().size()));
  return rt.make_string(lower(key.as_string()));
}

struct Keyed {
  Value key;
  Value item;
};

Result<std::vector<Keyed>> keyed(Runtime& rt, const List& list, const Value& attribute,
                                 bool case_sensitive) {
  std::vector<Keyed> out;
  for (const Value& item : list.items) {
    TRY(key, sort_key(rt, item, attribute, case_sensitive));
    out.push_back({std::move(key), item});
  }
  return out;
}

Result<Value> list_of_items(Runtime& rt, std::vector<Keyed> keyed_items) {
  std::vector<Value> items;
  items.reserve(keyed_items.size());
  for (Keyed& one : keyed_items) items.push_back(std::move(one.item));
  return rt.make_list(std::move(items));
}

Status sort_keyed(Runtime& rt, std::vector<Keyed>& items, bool reverse) {
  Status status = Ok{};
  const auto before = [&](const Keyed& a, const Keyed& b) {
    if (!status.ok()) return false;
    Result<bool> answer = reverse ? less(rt, b.key, a.key) : less(rt, a.key, b.key);
    if (!answer.ok()) status = std::move(answer.error());
    return answer.ok() && answer.value();
  };
  std::stable_sort(items.begin(), items.end(), before);
  return status;
}

// ---- text ----

Result<Value> filter_string(Runtime& rt, const Value& self, const Args&) {
  if (self.is(Kind::kString)) return self;
  TRY(text, str_of(rt, self));
  return rt.make_string(std::move(text));
}

template <std::string (*Map)(std::string_view)>
Result<Value> filter_text(Runtime& rt, const Value& self, const Args&) {
  TRY(text, str_of(rt, self));
  return rt.make_string(Map(text));
}

Result<Value> filter_trim(Runtime& rt, const Value& self, const Args& args) {
  TRY(text, str_of(rt, self));
  if (!args.positional[0].given()) return rt.copy_string(strip_right(strip_left(text)));
  TRY(chars, str_of(rt, args.positional[0]));
  TRY_OK(rt.spend(text.size() * (chars.size() / 16 + 1)));
  return rt.copy_string(strip_right(strip_left(text, chars), chars));
}

// Words begin after white space, hyphens and opening brackets.
std::string title_of_words(std::string_view text) {
  std::string out;
  bool first = true;
  for (const std::string_view one : code_points(text)) {
    const char32_t c = decode_code_point(one);
    const bool parts = is_space(c) || std::string_view("-({[<").find(one) != std::string_view::npos;
    out += parts ? std::string(one) : first ? upper(one) : lower(one);
    first = parts;
  }
  return out;
}

Result<Value> filter_title(Runtime& rt, const Value& self, const Args&) {
  TRY(text, str_of(rt, self));
  TRY_OK(rt.spend(16 * text.size()));
  return rt.make_string(title_of_words(text));
}

Result<Value> filter_escape(Runtime& rt, const Value& self, const Args&) {
  TRY(text, str_of(rt, self));
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return rt.make_string(std::move(out));
}

Result<Value> filter_replace(Runtime& rt, const Value& self, const Args& args) {
  TRY(text, str_of(rt, self));
  Args call;
  call.positional = {args.positional[0], args.positional[1], args.positional[2]};
  return invoke(rt, *find_method(Kind::kString, "replace"), Value::string(std::move(text)),
                std::move(call));
}

Result<std::string> indentation(Runtime& rt, const Value& width) {
  if (width.is(Kind::kString)) return width.as_string();
  TRY(spaces, integer_or(rt, width, 4));
  if (spaces > 1000) return rt.fail("indent: at most 1000 spaces, found {}", spaces);
  return std::string(static_cast<size_t>(std::max<int64_t>(spaces, 0)), ' ');
}

Result<Value> filter_indent(Runtime& rt, const Value& self, const Args& args) {
  TRY(text, str_of(rt, self));
  TRY(prefix, indentation(rt, args.positional[0]));
  const bool blank = args.positional[2].truthy();
  TRY_OK(rt.spend(16 * text.size()));
  // A newline at the end is kept, and does not begin a line to indent.
  text += '\n';
  std::string out;
  if (args.positional[1].truthy()) out += prefix;
  bool first = true;
  for (const std::string_view line : split_lines(text, false)) {
    const bool indented = !first && (blank || !line.empty());
    TRY_OK(rt.spend(line.size() + prefix.size()));
    if (!first) out += '\n';
    if (indented) out += prefix;
    out += line;
    first = false;
  }
  return rt.make_string(std::move(out));
}

Result<Value> filter_join(Runtime& rt, const Value& self, const Args& args) {
  TRY(items, items_of(rt, self));
  std::string separator;
  if (args.positional[0].given()) TRY_OK(append_str(rt, args.positional[0], separator));
  std::string out;
  for (size_t i = 0; i < items->items.size(); ++i) {
    if (i > 0) TRY_OK(append_str(rt, Value::string(separator), out));
    TRY(item, attribute_of(rt, items->items[i], args.positional[1]));
    TRY_OK(append_str(rt, item, out));
  }
  return rt.make_string(std::move(out));
}

Result<Value> filter_tojson(Runtime& rt, const Value& self, const Args& args) {
  JsonStyle style;
  style.ensure_ascii = args.positional[0].truthy();
  style.sort_keys = args.positional[3].truthy();
  if (args.positional[1].given()) {
    TRY(indent, integer_or(rt, args.positional[1], 0));
    if (indent > 100) return rt.fail("tojson: at most 100 spaces of indent, found {}", indent);
    style.indent = static_cast<int>(std::max<int64_t>(indent, 0));
    style.item_separator.assign(1, ',');
  }
  if (args.positional[2].given()) {
    TRY(separators, items_of(rt, args.positional[2]));
    if (separators->items.size() != 2) return rt.fail("tojson: separators must be a pair");
    TRY(item, str_of(rt, separators->items[0]));
    TRY(key, str_of(rt, separators->items[1]));
    style.item_separator = std::move(item);
    style.key_separator = std::move(key);
  }
  TRY(text, json_text(rt, self, style));
  return rt.make_string(std::move(text));
}

Result<Value> filter_format(Runtime& rt, const Value& self, const Args& args) {
  TRY(text, str_of(rt, self));
  return format_percent(rt, text, args.positional);
}

// Without what begins with `open` and ends with `close`, each found from the start anew.
Status cut_out(Runtime& rt, std::string_view open, std::string_view close, std::string& text) {
  while (true) {
    TRY_OK(rt.spend(2 * text.size()));
    const size_t begin = text.find(open);
    const size_t end = begin == text.npos ? text.npos : text.find(close, begin);
    if (end == text.npos) return Ok{};
    text.erase(begin, end + close.size() - begin);
  }
}

// The code point that an entity (between & and ;) stands for, or 0.
char32_t entity(std::string_view name) {
  static constexpr std::pair<std::string_view, char32_t> kNames[] = {
      {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}, {"nbsp", 0xA0}};
  for (const auto& [known, c] : kNames) {
    if (name == known) return c;
  }
  if (!name.starts_with('#')) return 0;
  name.remove_prefix(1);
  const bool hex = name.starts_with('x') || name.starts_with('X');
  if (hex) name.remove_prefix(1);
  uint32_t number = 0;
  const char* end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data(), end, number, hex ? 16 : 10);
  const bool valid = parsed.ec == std::errc() && parsed.ptr == end && number < 0x110000 &&
                     (number < 0xD800 || number > 0xDFFF);
  return valid ? number : 0;
}

std::string without_entities(std::string_view text) {
  constexpr size_t kLongest = 12;
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = std::min(text.find('&', at), text.size());
    out += text.substr(at, begin - at);
    at = begin;
    if (begin == text.size()) break;
    const size_t length = text.substr(begin + 1, kLongest).find(';');
    const char32_t c = length == text.npos ? 0 : entity(text.substr(begin + 1, length));
    if (c == 0) {
      out += text[at++];
    } else {
      append_utf8(out, c);
      at = begin + length + 2;
    }
  }
  return out;
}

// Comments and tags go, runs of white space become one space, entities what they stand for.
Result<Value> filter_striptags(Runtime& rt, const Value& self, const Args&) {
  TRY(text, str_of(rt, self));
  TRY_OK(cut_out(rt, "<!--", "-->", text));
  TRY_OK(cut_out(rt, "<", ">", text));
  TRY_OK(rt.spend(16 * text.size()));
  std::string joined;
  for (const std::string_view word : split_space(text, SIZE_MAX)) {
    if (!joined.empty()) joined += ' ';
    joined += word;
  }
  return rt.make_string(without_entities(joined));
}

Result<Value> filter_wordcount(Runtime& rt, const Value& self, const Args&) {
  TRY(text, str_of(rt, self));
  TRY_OK(rt.spend(text.size()));
  return Value::integer(static_cast<int64_t>(count_words(text)));
}

// ---- numbers ----

Result<Value> truncated(Runtime& rt, double value) {
  if (!(std::abs(value) < 9.2e18))
    return rt.fail("int: {} has no 64-bit integer", float_text(value));
  return Value::integer(static_cast<int64_t>(value));
}

// The digits of `text`, as int() and float() accept them: between white space, with a plus sign.
std::string_view number_text(std::string_view text) {
  text = strip_right(strip_left(text));
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  return text;
}

bool parse_double(std::string_view text, double* value) {
  text = number_text(text);
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), *value);
  return !text.empty() && parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
}

Result<Value> filter_int(Runtime& rt, const Value& self, const Args& args) {
  const Value otherwise = args.positional[0].given() ? args.positional[0] : Value::integer(0);
  if (self.is_integral()) return Value::integer(self.as_int());
  if (self.is(Kind::kFloat)) {
    return std::isnan(self.as_double()) ? otherwise : truncated(rt, self.as_double());
  }
  if (!self.is(Kind::kString)) return otherwise;
  TRY(base, integer_or(rt, args.positional[1], 10));
  if (base < 2 || base > 36) return rt.fail("int: base {} is not within 2 to 36", base);
  std::string_view text = number_text(self.as_string());
  if (base == 16 && (text.substr(0, 2) == "0x" || text.substr(0, 2) == "0X")) text.remove_prefix(2);
  int64_t integer = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, integer, static_cast<int>(base));
  if (!text.empty() && parsed.ec == std::errc() && parsed.ptr == end)
    return Value::integer(integer);
  double number = 0;
  return parse_double(text, &number) ? truncated(rt, number) : Result<Value>(otherwise);
}

Result<Value> filter_float(Runtime&, const Value& self, const Args& args) {
  if (self.is_number()) return Value::number(self.as_double());
  double number = 0;
  if (self.is(Kind::kString) && parse_double(self.as_string(), &number)) {
    return Value::number(number);
  }
  return args.positional[0].given() ? args.positional[0] : Value::number(0);
}

Result<Value> filter_round(Runtime& rt, const Value& self, const Args& args) {
  if (!self.is_number()) return rt.fail("round: a number expected, found {}", self.type_name());
  TRY(precision, integer_or(rt, args.positional[0], 0));
  if (precision < 0 || precision > 300) {
    return rt.fail("round: a precision within 0 to 300 expected, found {}", precision);
  }
  const std::string method = args.positional[1].given() && args.positional[1].is(Kind::kString)
                                 ? args.positional[1].as_string()
                                 : "common";
  const double value = self.as_double();
  if (method == "common") {
    if (self.is_integral()) return Value::integer(self.as_int());
    double rounded = 0;  // through decimal digits: exact, ties to even, as Python's round
    return Value::number(parse_double(fmt::format("{:.{}f}", value, precision), &rounded) ? rounded
                                                                                          : value);
  }
  if (method != "ceil" && method != "floor") return rt.fail("round: unknown method '{}'", method);
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = value * scale;
  return Value::number((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Result<Value> filter_abs(Runtime& rt, const Value& self, const Args&) {
  if (!self.is_number()) return rt.fail("abs: a number expected, found {}", self.type_name());
  if (self.is(Kind::kFloat)) return Value::number(std::abs(self.as_double()));
  return self.as_int() < 0 ? negate(rt, self) : Result<Value>(Value::integer(self.as_int()));
}

Result<Value> filter_sum(Runtime& rt, const Value& self, const Args& args) {
  TRY(items, items_of(rt, self));
  Value total = args.positional[1].given() ? args.positional[1] : Value::integer(0);
  for (const Value& item : items->items) {
    TRY(value, attribute_of(rt, item, args.positional[0]));
    TRY(next, binary(rt, BinaryOp::kAdd, total, value));
    total = std::move(next);
  }
  return total;
}

template <bool kLargest>
Result<Value> filter_extreme(Runtime& rt, const Value& self, const Args& args) {
  TRY(list, items_of(rt, self));
  TRY(items, keyed(rt, *list, args.positional[1], args.positional[0].truthy()));
  if (items.empty()) return Value::undefined("item of an empty sequence");
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    TRY(better, kLargest ? less(rt, items[best].key, items[i].key)
                         : less(rt, items[i].key, items[best].key));
    if (better) best = i;
  }
  return items[best].item;
}

// ---- any value ----

Result<Value> filter_default(Runtime& rt, const Value& self, const Args& args) {
  const bool absent = self.is(Kind::kUndefined) || (args.positional[1].truthy() && !self.truthy());
  if (!absent) return self;
  if (args.positional[0].is(Kind::kUndefined)) return rt.make_string("");
  return args.positional[0];
}

Result<Value> filter_same(Runtime&, const Value& self, const Args&) {
  return self;
}

Result<Value> filter_attr(Runtime& rt, const Value& self, const Args& args) {
  TRY(name, str_of(rt, args.positional[0]));
  return get_attribute(rt, self, name);
}

Result<Value> filter_length(Runtime& rt, const Value& self, const Args&) {
  TRY(length, length_of(rt, self));
  return Value::integer(length);
}

// ---- sequences ----

Result<Value> filter_list(Runtime& rt, const Value& self, const Args&) {
  TRY(items, items_of(rt, self));
  if (!items->tuple) return Value::list(std::move(items));
  return rt.make_list(items->items);
}

Result<Value> filter_first(Runtime& rt, const Value& self, const Args&) {
  TRY(items, items_of(rt, self));
  return items->items.empty() ? Value::undefined("first item") : items->items.front();
}

Result<Value> filter_last(Runtime& rt, const Value& self, const Args&) {
  TRY(items, items_of(rt, self));
  return items->items.empty() ? Value::undefined("last item") : items->items.back();
}

Result<Value> filter_reverse(Runtime& rt, const Value& self, const Args&) {
  if (self.is(Kind::kString)) return slice(rt, self, Value(), Value(), Value::integer(-1));
  TRY(list, items_of(rt, self));
  return rt.make_list({list->items.rbegin(), list->items.rend()});
}

Result<Value> filter_sort(Runtime& rt, const Value& self, const Args& args) {
  TRY(list, items_of(rt, self));
  TRY(items, keyed(rt, *list, args.positional[2], args.positional[1].truthy()));
  TRY_OK(sort_keyed(rt, items, args.positional[0].truthy()));
  return list_of_items(rt, std::move(items));
}

Result<Value> filter_items(Runtime& rt, const Value& self, const Args&) {
  if (self.is(Kind::kUndefined)) return rt.make_list({});
  if (!self.is(Kind::kDict))
    return rt.fail("items: a mapping expected, found {}", self.type_name());
  std::vector<Value> pairs;
  for (const auto& [key, value] : self.as_dict().entries) {
    TRY(pair, rt.make_list({key, value}, true));
    pairs.push_back(std::move(pair));
  }
  return rt.make_list(std::move(pairs));
}

Result<Value> filter_dictsort(Runtime& rt, const Value& self, const Args& args) {
  TRY(pairs, filter_items(rt, self, args));
  const bool by_value =
      args.positional[1].is(Kind::kString) && args.positional[1].as_string() == "value";
  TRY(items,
      keyed(rt, pairs.as_list(), Value::integer(by_value ? 1 : 0), args.positional[0].truthy()));
  TRY_OK(sort_keyed(rt, items, args.positional[2].truthy()));
  return list_of_items(rt, std::move(items));
}

Result<Value> filter_unique(Runtime& rt, const Value& self, const Args& args) {
  TRY(list, items_of(rt, self));
  TRY(items, keyed(rt, *list, args.positional[1], args.positional[0].truthy()));
  std::vector<Keyed> kept;
  for (Keyed& item : items) {
    bool seen = false;
    for (size_t i = 0; i < kept.size() && !seen; ++i) {
      TRY(same, equal(rt, kept[i].key, item.key));
      seen = same;
    }
    if (!seen) kept.push_back(std::move(item));
  }
  return list_of_items(rt, std::move(kept));
}

// Rows of `linecount` items; the last one is filled up with `fill_with` where that is given.
Result<Value> filter_batch(Runtime& rt, const Value& self, const Args& args) {
  TRY(list, items_of(rt, self));
  TRY(count, integer_or(rt, args.positional[0], 0));
  if (count < 1 || count > 100'000) {
    return rt.fail("batch: 1 to 100000 items expected, found {}", count);
  }
  std::vector<Value> rows;
  const auto width = static_cast<size_t>(count);
  for (size_t at = 0; at < list->items.size(); at += width) {
    const auto begin = list->items.begin() + static_cast<std::ptrdiff_t>(at);
    std::vector<Value> row(
        begin, begin + static_cast<std::ptrdiff_t>(std::min(width, list->items.size() - at)));
    if (args.positional[1].given()) row.resize(width, args.positional[1]);
    TRY(value, rt.make_list(std::move(row)));
    rows.push_back(std::move(value));
  }
  return rt.make_list(std::move(rows));
}

// One group as a pair whose items are also called grouper and list; the grouper is the first
// item's.
Result<Value> make_group(Runtime& rt, std::vector<Value> items, const Value& attribute,
                         const Value& otherwise) {
  TRY(grouper, attribute_of(rt, items.front(), attribute));
  if (grouper.is(Kind::kUndefined)) grouper = otherwise;
  TRY(list, rt.make_list(std::move(items)));
  TRY(pair, rt.make_list({std::move(grouper), std::move(list)}, true));
  auto group = std::make_shared<List>(pair.as_list());
  group->group = true;
  return Value::list(std::move(group));
}

Result<Value> filter_groupby(Runtime& rt, const Value& self, const Args& args) {
  TRY(list, items_of(rt, self));
  const Value& attribute = args.positional[0];
  const Value& otherwise = args.positional[1];
  TRY(items, keyed(rt, *list, attribute, args.positional[2].truthy()));
  for (Keyed& item : items) {
    if (item.key.is(Kind::kUndefined)) item.key = otherwise;
  }
  TRY_OK(sort_keyed(rt, items, false));
  std::vector<Value> groups;
  std::vector<Value> group;
  for (size_t i = 0; i < items.size(); ++i) {
    group.push_back(items[i].item);
    bool goes_on = i + 1 < items.size();
    if (goes_on) {
      TRY(same, equal(rt, items[i].key, items[i + 1].key));
      goes_on = same;
    }
    if (goes_on) continue;
    TRY(value, make_group(rt, std::exchange(group, {}), attribute, otherwise));
    groups.push_back(std::move(value));
  }
  return rt.make_list(std::move(groups));
}

const Value* named(const Args& args, std::string_view name) {
  for (const auto& [key, value] : args.named) {
    if (key == name) return &value;
  }
  return nullptr;
}

Result<Value> map_attribute(Runtime& rt, const List& list, const Value& attribute,
                            const Value* otherwise) {
  std::vector<Value> mapped;
  for (const Value& item : list.items) {
    TRY(value, attribute_of(rt, item, attribute));
    if (value.is(Kind::kUndefined) && otherwise != nullptr) value = *otherwise;
    mapped.push_back(std::move(value));
  }
  return rt.make_list(std::move(mapped));
}

// map(attribute='a.b', default=...) or map('filter', arguments...).
Result<Value> filter_map(Runtime& rt, const Value& self, const Args& args) {
  TRY(list, items_of(rt, self));
  if (const Value* attribute = named(args, "attribute")) {
    return map_attribute(rt, *list, *attribute, named(args, "default"));
  }
  if (args.positional.empty() || !args.positional[0].is(Kind::kString)) {
    return rt.fail("map: the name of a filter or an attribute is missing");
  }
  const Function* filter = find_filter(args.positional[0].as_string());
  if (filter == nullptr) return rt.fail("no filter {}", quote(args.positional[0].as_string()));
  std::vector<Value> mapped;
  for (const Value& item : list->items) {
    TRY_OK(rt.spend());
    Args rest{{args.positional.begin() + 1, args.positional.end()}, args.named};
    TRY(value, invoke(rt, *filter, item, std::move(rest)));
    mapped.push_back(std::move(value));
  }
  return rt.make_list(std::move(mapped));
}

// select and reject: [test, arguments...]; selectattr and rejectattr: [attribute, test,
// arguments...].
template <bool kKeep, bool kAttribute>
Result<Value> filter_select(Runtime& rt, const Value& self, const Args& args) {
  TRY(list, items_of(rt, self));
  size_t at = 0;
  Value attribute;
  if (kAttribute) {
    if (args.positional.empty()) return rt.fail("selectattr: the attribute's name is missing");
    attribute = args.positional[at++];
  }
  const Function* test = nullptr;
  if (at < args.positional.size()) {
    TRY(name, str_of(rt, args.positional[at++]));
    test = find_test(name);
    if (test == nullptr) return rt.fail("no test {}", quote(name));
  }
  std::vector<Value> kept;
  for (const Value& item : list->items) {
    TRY_OK(rt.spend());
    TRY(value, attribute_of(rt, item, attribute));
    if (test != nullptr) {
      const auto rest = args.positional.begin() + static_cast<std::ptrdiff_t>(at);
      TRY(answer, invoke(rt, *test, value, Args{{rest, args.positional.end()}, args.named}));
      value = std::move(answer);
    }
    if (value.truthy() == kKeep) kept.push_back(item);
  }
  return rt.make_list(std::move(kept));
}

constexpr Function kFilters[] = {
    {"abs", "", filter_abs},
    {"attr", "name!", filter_attr},
    {"batch", "linecount! fill_with", filter_batch},
    {"capitalize", "", filter_text<capitalize>},
    {"count", "", filter_length},
    {"d", "default_value boolean", filter_default},
    {"default", "default_value boolean", filter_default},
    {"dictsort", "case_sensitive by reverse", filter_dictsort},
    {"e", "", filter_escape},
    {"escape", "", filter_escape},
    {"first", "", filter_first},
    {"float", "default", filter_float},
    {"forceescape", "", filter_escape},
    {"format", "...", filter_format},
    {"groupby", "attribute! default case_sensitive", filter_groupby},
    {"indent", "width first blank", filter_indent},
    {"int", "default base", filter_int},
    {"items", "", filter_items},
    {"join", "d attribute", filter_join},
    {"last", "", filter_last},
    {"length", "", filter_length},
    {"list", "", filter_list},
    {"lower", "", filter_text<lower>},
    {"map", "...", filter_map},
    {"max", "case_sensitive attribute", filter_extreme<true>},
    {"min", "case_sensitive attribute", filter_extreme<false>},
    {"reject", "...", filter_select<false, false>},
    {"rejectattr", "...", filter_select<false, true>},
    {"replace", "old! new! count", filter_replace},
    {"reverse", "", filter_reverse},
    {"round", "precision method", filter_round},
    {"safe", "", filter_same},
    {"select", "...", filter_select<true, false>},
    {"selectattr", "...", filter_select<true, true>},
    {"sort", "reverse case_sensitive attribute", filter_sort},
    {"string", "", filter_string},
    {"striptags", "", filter_striptags},
    {"sum", "attribute start", filter_sum},
    {"title", "", filter_title},
    {"tojson", "ensure_ascii indent separators sort_keys", filter_tojson},
    {"trim", "chars", filter_trim},
    {"unique", "case_sensitive attribute", filter_unique},
    {"upper", "", filter_text<upper>},
    {"wordcount", "", filter_wordcount},
};

}  // namespace

const Function* find_filter(std::string_view name) {
  const auto* found = std::find_if(std::begin(kFilters), std::end(kFilters),
                                   [name](const Function& f) { return f.name == name; });
  return found == std::end(kFilters) ? nullptr : found;
}

}  // namespace hf2q::jinja
