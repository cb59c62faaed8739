#include "chat/jinja_text.h"

#include <algorithm>
#include <cstring>

namespace hf2q::jinja {
namespace {

bool is_continuation(std::string_view text, size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

// Upper-case letters whose lower-case form is `distance` further on; `step` 2 is for scripts that
// alternate upper and lower case.
struct CaseRange {
  char32_t first, last;
  char32_t distance;
  char32_t step;
};
constexpr CaseRange kCaseRanges[] = {
    {'A', 'Z', 32, 1},      {0xC0, 0xD6, 32, 1},    {0xD8, 0xDE, 32, 1},   {0x100, 0x12E, 1, 2},
    {0x132, 0x136, 1, 2},   {0x139, 0x147, 1, 2},   {0x14A, 0x176, 1, 2},  {0x179, 0x17D, 1, 2},
    {0x386, 0x386, 38, 1},  {0x388, 0x38A, 37, 1},  {0x38C, 0x38C, 64, 1}, {0x38E, 0x38F, 63, 1},
    {0x391, 0x3A1, 32, 1},  {0x3A3, 0x3AB, 32, 1},  {0x400, 0x40F, 80, 1}, {0x410, 0x42F, 32, 1},
    {0x460, 0x480, 1, 2},   {0x48A, 0x4BE, 1, 2},   {0x4C1, 0x4CD, 1, 2},  {0x4D0, 0x52E, 1, 2},
    {0x1E00, 0x1E94, 1, 2}, {0x1EA0, 0x1EFE, 1, 2},
};

template <class Map>
std::string mapped(std::string_view text, Map map) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = code_point_bytes(text, at);
    const std::string_view one = text.substr(at, bytes);
    const char32_t from = decode_code_point(one);
    const char32_t to = map(from);
    if (to == from) {
      out += one;  // also what is malformed
    } else {
      append_utf8(out, to);
    }
    at += bytes;
  }
  return out;
}

template <class Drop>
std::string_view drop_left(std::string_view text, Drop drop) {
  while (!text.empty()) {
    const size_t bytes = code_point_bytes(text, 0);
    if (!drop(text.substr(0, bytes))) break;
    text.remove_prefix(bytes);
  }
  return text;
}

// Start of the last code point of `text`, which is not empty.
size_t last_start(std::string_view text) {
  const size_t end = text.size();
  for (size_t bytes = std::min<size_t>(4, end); bytes > 1; --bytes) {
    if (code_point_bytes(text, end - bytes) == bytes) return end - bytes;
  }
  return end - 1;
}

template <class Drop>
std::string_view drop_right(std::string_view text, Drop drop) {
  while (!text.empty()) {
    const size_t start = last_start(text);
    if (!drop(text.substr(start))) break;
    text = text.substr(0, start);
  }
  return text;
}

bool is_space_piece(std::string_view one) {
  return is_space(decode_code_point(one));
}

bool is_word_part(char32_t c) {
  if (c < 0x80) return to_lower(c) != c || to_upper(c) != c || (c >= '0' && c <= '9') || c == '_';
  if (c < 0x100) {
    static constexpr std::u32string_view kOthers =
        U"\u00aa\u00b2\u00b3\u00b5\u00b9\u00ba\u00bc\u00bd\u00be";
    return (c >= 0xC0 && c != 0xD7 && c != 0xF7) || kOthers.find(c) != kOthers.npos;
  }
  return !is_space(c) && !(c >= 0x2000 && c <= 0x206F) && !(c >= 0x3000 && c <= 0x303F) &&
         c != 0xFFFD;
}

bool is_line_end(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

}  // namespace

size_t code_point_bytes(std::string_view text, size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  size_t bytes = 1;
  if (lead >= 0xC2 && lead <= 0xDF) bytes = 2;
  if (lead >= 0xE0 && lead <= 0xEF) bytes = 3;
  if (lead >= 0xF0 && lead <= 0xF4) bytes = 4;
  for (size_t i = 1; i < bytes; ++i) {
    if (!is_continuation(text, at + i)) return 1;
  }
  return bytes;
}

size_t count_code_points(std::string_view text) {
  size_t n = 0;
  for (size_t at = 0; at < text.size(); at += code_point_bytes(text, at)) ++n;
  return n;
}

std::vector<std::string_view> code_points(std::string_view text) {
  std::vector<std::string_view> pieces;
  for (size_t at = 0; at < text.size(); at += pieces.back().size()) {
    pieces.push_back(text.substr(at, code_point_bytes(text, at)));
  }
  return pieces;
}

char32_t decode_code_point(std::string_view one) {
  const auto lead = static_cast<unsigned char>(one[0]);
  if (one.size() == 1) return lead < 0x80 ? lead : 0xFFFD;
  char32_t value = lead & (0x7FU >> one.size());
  for (const char c : one.substr(1)) value = value << 6 | (static_cast<unsigned char>(c) & 0x3FU);
  return value;
}

void append_utf8(std::string& out, char32_t c) {
  const auto byte = [&out](char32_t value) { out += static_cast<char>(value); };
  if (c < 0x80) {
    byte(c);
  } else if (c < 0x800) {
    byte(0xC0 | c >> 6);
    byte(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    byte(0xE0 | c >> 12);
    byte(0x80 | (c >> 6 & 0x3F));
    byte(0x80 | (c & 0x3F));
  } else {
    byte(0xF0 | c >> 18);
    byte(0x80 | (c >> 12 & 0x3F));
    byte(0x80 | (c >> 6 & 0x3F));
    byte(0x80 | (c & 0x3F));
  }
}

bool is_space(char32_t c) {
  return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F) || c == 0x85 ||
         c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_all_space(std::string_view text) {
  return strip_left(text).empty();
}

std::string_view strip_left(std::string_view text) {
  return drop_left(text, is_space_piece);
}
std::string_view strip_right(std::string_view text) {
  return drop_right(text, is_space_piece);
}
std::string_view strip_left(std::string_view text, std::string_view chars) {
  return drop_left(text, [chars](std::string_view one) { return find(chars, one) != chars.npos; });
}
std::string_view strip_right(std::string_view text, std::string_view chars) {
  return drop_right(text, [chars](std::string_view one) { return find(chars, one) != chars.npos; });
}

char32_t to_upper(char32_t c) {
  if (c == 0xFF) return 0x178;
  for (const CaseRange& r : kCaseRanges) {
    const char32_t from = c - r.distance;
    if (c >= r.first + r.distance && from <= r.last && (from - r.first) % r.step == 0) return from;
  }
  return c;
}

char32_t to_lower(char32_t c) {
  if (c == 0x178) return 0xFF;
  for (const CaseRange& r : kCaseRanges) {
    if (c >= r.first && c <= r.last && (c - r.first) % r.step == 0) return c + r.distance;
  }
  return c;
}

std::string upper(std::string_view text) {
  return mapped(text, to_upper);
}
std::string lower(std::string_view text) {
  return mapped(text, to_lower);
}

std::string capitalize(std::string_view text) {
  if (text.empty()) return {};
  const size_t first = code_point_bytes(text, 0);
  return upper(text.substr(0, first)) + lower(text.substr(first));
}

std::string swap_case(std::string_view text) {
  return mapped(text, [](char32_t c) { return to_lower(c) != c ? to_lower(c) : to_upper(c); });
}

std::string fold_case(std::string_view text) {
  // Small letters with a folded form of their own: micro, long s, final sigma; and sharp s.
  const std::string folded = mapped(text, [](char32_t c) -> char32_t {
    if (c == 0xB5) return 0x3BC;
    if (c == 0x17F) return 's';
    return c == 0x3C2 ? 0x3C3 : to_lower(c);
  });
  return replace(folded, "\u00df", "ss", SIZE_MAX);
}

std::string expand_tabs(std::string_view text, size_t size) {
  std::string out;
  size_t column = 0;
  for (const std::string_view one : code_points(text)) {
    if (one == "\t") {
      const size_t spaces = size == 0 ? 0 : size - column % size;
      out.append(spaces, ' ');
      column += spaces;
    } else {
      out += one;
      column = one == "\n" || one == "\r" ? 0 : column + 1;
    }
  }
  return out;
}

size_t count_words(std::string_view text) {
  size_t n = 0;
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    const std::string_view one = text.substr(at, code_point_bytes(text, at));
    const bool is_part = is_word_part(decode_code_point(one));
    if (is_part && !in_word) ++n;
    in_word = is_part;
    at += one.size();
  }
  return n;
}

size_t find(std::string_view text, std::string_view needle, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  // memmem, unlike string_view::find, is linear for every input.
  const void* at = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  if (at == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(at) - text.data());
}

size_t count(std::string_view text, std::string_view needle) {
  size_t n = 0;
  for (size_t at = find(text, needle); at != text.npos; at = find(text, needle, at + needle.size()))
    ++n;
  return n;
}

std::string replace(std::string_view text, std::string_view old, std::string_view with,
                    size_t limit) {
  std::string out;
  size_t at = 0;
  for (size_t n = 0; n < limit; ++n) {
    const size_t hit = find(text, old, at);
    if (hit == text.npos) break;
    out.append(text, at, hit - at).append(with);
    at = hit + old.size();
    if (!old.empty()) continue;
    if (at == text.size()) return out;
    const size_t bytes = code_point_bytes(text, at);
    out.append(text, at, bytes);
    at += bytes;
  }
  return out.append(text.substr(at));
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator,
                                    size_t limit) {
  std::vector<std::string_view> pieces;
  size_t at = 0;
  while (pieces.size() < limit) {
    const size_t hit = find(text, separator, at);
    if (hit == text.npos) break;
    pieces.push_back(text.substr(at, hit - at));
    at = hit + separator.size();
  }
  pieces.push_back(text.substr(at));
  return pieces;
}

std::vector<std::string_view> split_right(std::string_view text, std::string_view separator,
                                          size_t limit) {
  std::vector<std::string_view> pieces;
  while (pieces.size() < limit) {
    const size_t hit = text.rfind(separator);
    if (hit == text.npos) break;
    pieces.push_back(text.substr(hit + separator.size()));
    text = text.substr(0, hit);
  }
  pieces.push_back(text);
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

std::vector<std::string_view> split_space(std::string_view text, size_t limit) {
  std::vector<std::string_view> pieces;
  text = strip_left(text);
  while (!text.empty()) {
    if (pieces.size() == limit) {
      pieces.push_back(strip_right(text));
      break;
    }
    size_t end = 0;
    while (end < text.size()) {
      const size_t bytes = code_point_bytes(text, end);
      if (is_space_piece(text.substr(end, bytes))) break;
      end += bytes;
    }
    pieces.push_back(text.substr(0, end));
    text = strip_left(text.substr(end));
  }
  return pieces;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t start = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = code_point_bytes(text, at);
    if (!is_line_end(decode_code_point(text.substr(at, bytes)))) {
      at += bytes;
      continue;
    }
    const size_t end = at + (text.substr(at, 2) == "\r\n" ? 2 : bytes);
    lines.push_back(text.substr(start, (keep_ends ? end : at) - start));
    start = at = end;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

}  // namespace hf2q::jinja
