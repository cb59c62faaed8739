#include "base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hf2q {
namespace {

using ::testing::HasSubstr;

std::string error_of(std::string_view text) {
  simdjson::dom::parser parser;
  auto parsed = parse_json(parser, text, "the text");
  return parsed.ok() ? "no error" : parsed.error().message;
}

std::string nested(int depth) {
  std::string text = "1";
  for (int i = 0; i < depth; ++i) {
    text = fmt::format(fmt::runtime(i % 2 == 0 ? "[{}]" : R"({{"k":{}}})"), text);
  }
  return text;
}

TEST(Json, KeepsIntegersExact) {
  simdjson::dom::parser parser;
  auto root =
      parse_json(parser, "[18446744073709551615,-9223372036854775808,9007199254740993]", "");
  ASSERT_TRUE(root.ok()) << root.error().message;
  EXPECT_EQ(root.value().at(0).get_uint64().value_unsafe(), 18446744073709551615U);
  EXPECT_EQ(root.value().at(1).get_int64().value_unsafe(), INT64_MIN);
  EXPECT_EQ(root.value().at(2).get_uint64().value_unsafe(), 9007199254740993U);
  EXPECT_THAT(error_of("[18446744073709551616]"), HasSubstr("the text: not valid JSON"));
}

TEST(Json, BoundsTheDepth) {
  EXPECT_EQ(error_of(nested(31)), "no error");
  EXPECT_THAT(error_of(nested(32)), HasSubstr("too deep"));
  EXPECT_EQ(error_of(std::string(32, '[') + std::string(32, ']')), "no error");
  EXPECT_THAT(error_of(std::string(33, '[') + std::string(33, ']')), HasSubstr("too deep"));
}

TEST(Json, RefusesAKeyThatAppearsTwiceInOneObject) {
  EXPECT_EQ(error_of(R"([{"a":{"a":1}},{"a":2}])"), "no error");
  EXPECT_EQ(error_of(R"({"x":[0,{"y":{"a":1,"b":2,"a":3}}]})"),
            R"(the text: key "x"."y"."a" appears twice)");
}

TEST(Json, FindsTheRepeatedKeyAmongFewAndMany) {
  for (int n_keys = 1; n_keys < 20; ++n_keys) {
    std::string text = "{";
    for (int i = 0; i < n_keys; ++i) text += fmt::format(R"("k{}":0,)", i);
    EXPECT_EQ(error_of(text + R"("other":0})"), "no error");
    EXPECT_EQ(error_of(text + R"("k0":0})"), R"(the text: key "k0" appears twice)");
  }
}

TEST(Json, RefusesWhatIsNotOneValue) {
  EXPECT_THAT(error_of(std::string_view()), HasSubstr("the text: not valid JSON"));
  for (const char* text : {"", " ", "{} {}", "[1,]", "nul", "\xEF\xBB\xBF{}", "\"\xFF\""}) {
    EXPECT_THAT(error_of(text), HasSubstr("the text: not valid JSON")) << text;
  }
}

TEST(Json, DescribesEveryKindOfValue) {
  simdjson::dom::parser parser;
  auto root = parse_json(parser, R"([[1], {"a":1}, "s", -3, 1.5, true, null])", "");
  ASSERT_TRUE(root.ok());
  std::string all;
  simdjson::dom::array items;
  ASSERT_EQ(root.value().get(items), simdjson::SUCCESS);
  for (const simdjson::dom::element item : items) all += describe(item) + "; ";
  EXPECT_EQ(all, R"(an array; an object; "s"; -3; 1.5; true; null; )");
}

}  // namespace
}  // namespace hf2q
