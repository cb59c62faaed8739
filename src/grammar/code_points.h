#pragma once
// Sets of Unicode scalar values (U+0000 to U+10FFFF without surrogates), and their UTF-8 form.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace hf2q {

inline constexpr uint32_t kMaxCodePoint = 0x10FFFF;

class CodePointSet {
 public:
  struct Range {
    uint32_t first;
    uint32_t last;  // included
    bool operator==(const Range&) const = default;
  };

  CodePointSet() = default;
  CodePointSet(std::initializer_list<Range> ranges);
  static CodePointSet all();

  // Surrogates in the range are left out, first <= last.
  void add(uint32_t first, uint32_t last);
  void add(const CodePointSet& other);
  CodePointSet complement() const;
  CodePointSet without(const CodePointSet& other) const;
  bool contains(uint32_t code_point) const;
  bool empty() const { return ranges_.empty(); }
  // Ascending, apart from one another by at least one value.
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  void add_scalars(uint32_t first, uint32_t last);
  std::vector<Range> ranges_;
};

// A product of byte ranges: every choice of one byte from each is the UTF-8 form of one character.
struct ByteRange {
  uint8_t first;
  uint8_t last;
};
struct Utf8Ranges {
  std::array<ByteRange, 4> bytes;
  uint32_t n_bytes;
};

// The characters of the set, each in exactly one of the products.
std::vector<Utf8Ranges> utf8_ranges(const CodePointSet& set);

void append_utf8(uint32_t code_point, std::string& text);

}  // namespace hf2q
