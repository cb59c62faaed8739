#include "base/quote.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace hf2q {
namespace {

TEST(Quote, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(quote("blk.0"), "\"blk.0\"");
  EXPECT_EQ(quote(""), "\"\"");
  EXPECT_EQ(quote("a\"\n\x1b[31m"), R"("a\"\n\x1b[31m")");
  EXPECT_EQ(quote(std::string_view("a\0b", 3)), R"("a\x00b")");
}

TEST(Quote, CutsLongTextButNoCharacterInHalf) {
  EXPECT_EQ(quote(std::string(80, 'x')), fmt::format("\"{:x>80}\"", ""));
  EXPECT_EQ(quote(std::string(81, 'x')), fmt::format("\"{:x>80}\"...", ""));
  EXPECT_EQ(quote(std::string(79, 'x').append("\u00E9")), fmt::format("\"{:x>79}\"...", ""));
}

TEST(Printable, EscapesOnlyWhatATerminalWouldObey) {
  EXPECT_EQ(printable("blk.0"), "blk.0");
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("a\"b\\c\n\x1b[31m"), R"(a"b\c\n\x1b[31m)");
  EXPECT_EQ(printable("\"\u00E9\""), "\"\u00E9\"");
  EXPECT_EQ(printable(std::string(200, 'x')), std::string(200, 'x'));
}

TEST(LinesOf, SaysHowManyAreLeftOut) {
  const std::string items[] = {"a", "b", "c"};
  EXPECT_EQ(lines_of({}), "");
  EXPECT_EQ(lines_of(items), "\n  a\n  b\n  c");
  EXPECT_EQ(lines_of(items, 3), "\n  a\n  b\n  c");
  EXPECT_EQ(lines_of(items, 2), "\n  a\n  b\n  and 1 more");
}

TEST(CountOf, OneIsSingular) {
  EXPECT_EQ(count_of(0, "tensor"), "0 tensors");
  EXPECT_EQ(count_of(1, "tensor"), "1 tensor");
  EXPECT_EQ(count_of(2, "tensor"), "2 tensors");
}

}  // namespace
}  // namespace hf2q
