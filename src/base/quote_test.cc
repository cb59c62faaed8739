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

}  // namespace
}  // namespace hf2q
