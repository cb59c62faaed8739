#pragma once
// Python's str operations over UTF-8. A byte that is no part of valid UTF-8 counts as one code
// point.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hf2q::jinja {

// Bytes of the code point at text[at], 1 to 4; at < text.size().
size_t code_point_bytes(std::string_view text, size_t at);
size_t count_code_points(std::string_view text);
std::vector<std::string_view> code_points(std::string_view text);
// The number of the code point that `one` holds; U+FFFD for a malformed byte.
char32_t decode_code_point(std::string_view one);
void append_utf8(std::string& out, char32_t code_point);

bool is_space(char32_t code_point);  // what str.strip() removes
bool is_all_space(std::string_view text);
// Without the white space (or, where given, the code points of `chars`) at its ends.
std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);
std::string_view strip_left(std::string_view text, std::string_view chars);
std::string_view strip_right(std::string_view text, std::string_view chars);

char32_t to_upper(char32_t code_point);
char32_t to_lower(char32_t code_point);
std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string swap_case(std::string_view text);
std::string fold_case(std::string_view text);

// Tabs as spaces up to the next column that is a multiple of `size`; 0 drops them.
std::string expand_tabs(std::string_view text, size_t size);
// Runs of letters, digits and underscores. Above Latin-1 everything counts as a letter but white
// space and the blocks of general and CJK punctuation.
size_t count_words(std::string_view text);

// Position of `needle` at or after `from`, npos where there is none; linear in both sizes.
size_t find(std::string_view text, std::string_view needle, size_t from = 0);
size_t count(std::string_view text, std::string_view needle);  // without overlap; needle not empty
// At most `limit` times, from the left; an empty `old` stands before each code point and at the
// end.
std::string replace(std::string_view text, std::string_view old, std::string_view with,
                    size_t limit);
// At `separator` (not empty), at most `limit` times.
std::vector<std::string_view> split(std::string_view text, std::string_view separator,
                                    size_t limit);
std::vector<std::string_view> split_right(std::string_view text, std::string_view separator,
                                          size_t limit);
// At runs of white space, which the pieces do not hold.
std::vector<std::string_view> split_space(std::string_view text, size_t limit);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

}  // namespace hf2q::jinja
