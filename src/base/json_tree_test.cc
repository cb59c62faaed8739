#include "base/json_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hf2q {
namespace {

using testing::HasSubstr;

std::string nested_objects(size_t depth, const std::string& inner = "") {
  return "{\"a\": " + std::string(depth - 1, '[') + inner + std::string(depth - 1, ']') + "}";
}

std::string tree_error(const std::string& text) {
  const auto result = parse_json_object(text, "dir/x.json");
  return result.ok() ? "" : result.error().message;
}

TEST(JsonTree, DepthIsBounded) {
  EXPECT_TRUE(parse_json_object(nested_objects(100), "x").ok());
  EXPECT_EQ(tree_error(nested_objects(101)),
            "dir/x.json: arrays and objects nested at most 100 deep expected, found 101");
  EXPECT_THAT(tree_error(nested_objects(200000)), HasSubstr("found 200000"));
  EXPECT_THAT(tree_error("{\"a\": " + std::string(200000, '[')), HasSubstr("found 200001"));
  std::string objects;
  for (int i = 0; i < 200; ++i) objects += "{\"a\":";
  EXPECT_THAT(tree_error(objects), HasSubstr("found 200"));
}

TEST(JsonTree, BracketsInStringsDoNotNest) {
  const std::string brackets(200, '[');
  for (const std::string& text : {brackets, "\\\"" + brackets, "\\\\\\\"" + brackets}) {
    EXPECT_TRUE(parse_json_object("{\"a\": \"" + text + "\"}", "x").ok()) << text;
  }
  EXPECT_THAT(tree_error("{\"a\": \"\\\\\", \"b\": " + brackets), HasSubstr("found 201"));
}

TEST(JsonTree, SizeIsBounded) {
  const std::string blanks(kMaxJsonTreeBytes - 2, ' ');
  EXPECT_TRUE(parse_json_object("{" + blanks + "}", "x").ok());
  EXPECT_EQ(tree_error("{ " + blanks + "}"),
            "dir/x.json: at most 16777216 bytes of JSON expected, found 16777217");
}

TEST(JsonTree, OnlyAnObjectIsTaken) {
  for (const char* text : {"", "[]", "3", "{", "{} {}", "{\"a\": \"\xFF\"}", "]]}}"}) {
    EXPECT_EQ(tree_error(text), "dir/x.json: a JSON object expected") << text;
  }
}

TEST(JsonTree, ValuesInWords) {
  const std::pair<nlohmann::json, const char*> cases[] = {{nlohmann::json::array({1}), "an array"},
                                                          {nlohmann::json::object(), "an object"},
                                                          {"a\nb", "\"a\\nb\""},
                                                          {-1, "-1"},
                                                          {nullptr, "null"},
                                                          {true, "true"}};
  for (const auto& [value, words] : cases) EXPECT_EQ(describe(value), words);
  EXPECT_EQ(describe(nlohmann::json(std::string(200, 'x'))).size(), 80 + 2 + 3U);
}

}  // namespace
}  // namespace hf2q
