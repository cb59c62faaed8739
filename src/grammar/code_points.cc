#include "grammar/code_points.h"

#include <algorithm>

#include "base/check.h"

namespace hf2q {
namespace {

constexpr uint32_t kFirstSurrogate = 0xD800;
constexpr uint32_t kLastSurrogate = 0xDFFF;
constexpr uint32_t kLastOfLength[] = {0x7F, 0x7FF, 0xFFFF, kMaxCodePoint};

// Splits [first, last], whose characters have n_bytes each, into products.
void add_products(uint32_t first, uint32_t last, uint32_t n_bytes, std::vector<Utf8Ranges>& out) {
  for (uint32_t i = 1; i < n_bytes; ++i) {
    const uint32_t mask = (1U << (6 * i)) - 1;  // what the last i bytes hold
    if ((first & ~mask) == (last & ~mask)) continue;
    if ((first & mask) != 0) {
      add_products(first, first | mask, n_bytes, out);
      add_products((first | mask) + 1, last, n_bytes, out);
      return;
    }
    if ((last & mask) != mask) {
      add_products(first, (last & ~mask) - 1, n_bytes, out);
      add_products(last & ~mask, last, n_bytes, out);
      return;
    }
  }
  std::string low;
  std::string high;
  append_utf8(first, low);
  append_utf8(last, high);
  Utf8Ranges product = {{}, n_bytes};
  for (uint32_t i = 0; i < n_bytes; ++i) {
    product.bytes[i] = {static_cast<uint8_t>(low[i]), static_cast<uint8_t>(high[i])};
  }
  out.push_back(product);
}

}  // namespace

CodePointSet::CodePointSet(std::initializer_list<Range> ranges) {
  for (const Range& range : ranges) add(range.first, range.last);
}

CodePointSet CodePointSet::all() {
  return {{0, kMaxCodePoint}};
}

void CodePointSet::add(uint32_t first, uint32_t last) {
  CHECK(first <= last && last <= kMaxCodePoint);
  if (first < kFirstSurrogate) add_scalars(first, std::min(last, kFirstSurrogate - 1));
  if (last > kLastSurrogate) add_scalars(std::max(first, kLastSurrogate + 1), last);
}

void CodePointSet::add_scalars(uint32_t first, uint32_t last) {
  // Ranges that touch [first, last] melt into it.
  const auto begin = std::ranges::lower_bound(ranges_, first, {},
                                              [](const Range& range) { return range.last + 1; });
  auto end = begin;
  while (end != ranges_.end() && end->first <= last + 1) {
    first = std::min(first, end->first);
    last = std::max(last, end->last);
    ++end;
  }
  ranges_.insert(ranges_.erase(begin, end), {first, last});
}

void CodePointSet::add(const CodePointSet& other) {
  for (const Range& range : other.ranges_) add_scalars(range.first, range.last);
}

CodePointSet CodePointSet::complement() const {
  CodePointSet result;
  uint32_t next = 0;
  for (const Range& range : ranges_) {
    if (range.first > next) result.add(next, range.first - 1);
    next = range.last + 1;
  }
  if (next <= kMaxCodePoint) result.add(next, kMaxCodePoint);
  return result;
}

CodePointSet CodePointSet::without(const CodePointSet& other) const {
  CodePointSet rest = complement();
  rest.add(other);
  return rest.complement();
}

bool CodePointSet::contains(uint32_t code_point) const {
  return std::ranges::any_of(ranges_, [&](const Range& range) {
    return range.first <= code_point && code_point <= range.last;
  });
}

std::vector<Utf8Ranges> utf8_ranges(const CodePointSet& set) {
  std::vector<Utf8Ranges> products;
  for (const CodePointSet::Range& range : set.ranges()) {
    uint32_t first = range.first;
    for (uint32_t n = 1; n <= 4 && first <= range.last; ++n) {
      const uint32_t last = std::min(range.last, kLastOfLength[n - 1]);
      if (first > last) continue;
      add_products(first, last, n, products);
      first = last + 1;
    }
  }
  return products;
}

void append_utf8(uint32_t code_point, std::string& text) {
  const auto put = [&](uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

}  // namespace hf2q
