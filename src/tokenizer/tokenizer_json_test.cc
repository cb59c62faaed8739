#include "tokenizer/tokenizer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary_for_tests.h"

namespace hf2q {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using tokenizer_test::add_token;
using tokenizer_test::bytes_of;
using tokenizer_test::small_json;

Result<Vocabulary> parse(const json& document) {
  return parse_tokenizer_json(bytes_of(document.dump()), "t.json");
}

TEST(TokenizerJson, SmallFileGivesItsTokensMergesAndRoles) {
  const Result<Vocabulary> result = parse(small_json());
  ASSERT_TRUE(result.ok()) << result.error().message;
  const Vocabulary& vocabulary = result.value();
  ASSERT_EQ(vocabulary.tokens.size(), 267U);
  EXPECT_EQ(vocabulary.tokens[4], "<0x00>");
  EXPECT_EQ(vocabulary.tokens[260], kSpaceMark);
  EXPECT_EQ(vocabulary.tokens[266], "<|turn>");
  EXPECT_THAT(vocabulary.merges, ElementsAre(Merge{261, 262, 264}, Merge{260, 264, 265}));
  EXPECT_EQ(vocabulary.bos, 2);
  EXPECT_EQ(vocabulary.eos, 1);
  EXPECT_EQ(vocabulary.unk, 3);
  EXPECT_EQ(vocabulary.pad, 0);
  EXPECT_EQ(vocabulary.mask, kNoToken);
  EXPECT_THAT(vocabulary.stop_ids, ElementsAre(1));
  EXPECT_THAT(vocabulary.added, ElementsAre(AddedToken{0, true, false}, AddedToken{1, true, false},
                                            AddedToken{2, true, false}, AddedToken{3, true, false},
                                            AddedToken{266, true, false}));
}

TEST(TokenizerJson, MergesMayBeStrings) {
  json document = small_json();
  document["model"]["merges"] = json::parse(R"(["a b", "▁ ab"])");
  const Result<Vocabulary> result = parse(document);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result.value(), parse(small_json()).value());
}

TEST(TokenizerJson, TypesFollowFlagsAndTexts) {
  json document = small_json();
  add_token(document, 261, "a", false, false);                // in model.vocab: stays normal
  add_token(document, 267, "<table>", false, false);          // not in model.vocab
  add_token(document, 268, "<|tool_response>", false, true);  // a marker
  add_token(document, 269, "<turn|>", true, false);
  const Result<Vocabulary> result = parse(document);
  ASSERT_TRUE(result.ok()) << result.error().message;
  const Vocabulary& vocabulary = result.value();
  EXPECT_EQ(vocabulary.types[0], TokenType::kControl);
  EXPECT_EQ(vocabulary.types[4], TokenType::kByte);
  EXPECT_EQ(vocabulary.types[261], TokenType::kNormal);
  EXPECT_EQ(vocabulary.types[267], TokenType::kUserDefined);
  EXPECT_EQ(vocabulary.types[268], TokenType::kUserDefined);
  EXPECT_EQ(vocabulary.types[269], TokenType::kControl);
  EXPECT_EQ(vocabulary.added[7], (AddedToken{268, true, true}));
  EXPECT_THAT(vocabulary.stop_ids, ElementsAre(1, 269, 268));
}

struct BadJson {
  const char* name;
  const char* pointer;  // what is replaced
  std::string value;    // by this JSON
  ErrorCode code;
  const char* message;
};

class TokenizerJsonBad : public testing::TestWithParam<BadJson> {};

TEST_P(TokenizerJsonBad, IsRefusedNamingTheField) {
  const BadJson& bad = GetParam();
  json document = small_json();
  document[json::json_pointer(bad.pointer)] = json::parse(bad.value);
  const Result<Vocabulary> result = parse(document);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, bad.code);
  EXPECT_THAT(result.error().message, HasSubstr("t.json"));
  EXPECT_THAT(result.error().message, HasSubstr(bad.message));
}

constexpr ErrorCode kBroken = ErrorCode::kCorrupt;
constexpr ErrorCode kUnsupported = ErrorCode::kUnsupported;
std::string quoted(const std::string& text) {
  return json(text).dump();
}
const std::string kLong(kMaxTokenBytes + 1, 'x');

const BadJson kBadJsons[] = {
    {"unigram", "/model/type", R"("Unigram")", kUnsupported,
     "model.type: BPE expected, found Unig"},
    {"type_number", "/model/type", "3", kBroken, "model.type: a string expected, found a number"},
    {"no_byte_fallback", "/model/byte_fallback", "false", kUnsupported, "byte_fallback: true"},
    {"ignore_merges", "/model/ignore_merges", "true", kUnsupported, "model.ignore_merges: false"},
    {"dropout", "/model/dropout", "0.5", kUnsupported, "model.dropout: null expected, found 0.5"},
    {"affix", "/model/end_of_word_suffix", R"("</w>")", kUnsupported, "model.end_of_word_suffix"},
    {"normalizer", "/normalizer/content", R"("_")", kUnsupported, "normalizer: Replace"},
    {"pre_tokenizer", "/pre_tokenizer/type", R"("ByteLevel")", kUnsupported, "null or Split"},
    {"decoder", "/decoder/decoders/3", R"({"type": "Strip"})", kUnsupported, "decoder: Sequence"},
    {"model_array", "/model", "[]", kBroken, "model.type: missing"},
    {"vocab_array", "/model/vocab", "[]", kBroken, "model.vocab: an object expected"},
    {"id_negative", "/model/vocab/a", "-1", kBroken,
     "\"a\": an id of 0 or more expected, found -1"},
    {"id_text", "/model/vocab/a", R"("5")", kBroken, "\"a\": an id of 0 or more"},
    {"id_huge", "/model/vocab/a", "9223372036854775808", kBroken, "\"a\": an id below 271"},
    {"id_twice", "/model/vocab/a", "262", kBroken, "token 262: both"},
    {"id_missing", "/model/vocab/a", "267", kBroken, "found no token with id 261"},
    {"text_empty", "/model/vocab/", "267", kBroken, "token 267: text of 1 to 1024 bytes"},
    {"added_id_taken", "/added_tokens/4/id", "265", kBroken, "token 265: both"},
    {"added_text_taken", "/added_tokens/4/content", R"("a")", kBroken, "token 266: its text \"a\""},
    {"added_long", "/added_tokens/4/content", quoted(kLong), kBroken, "found 1025"},
    {"added_twice", "/added_tokens/4", small_json()["added_tokens"][0].dump(), kBroken, "id 0 st"},
    {"added_strips", "/added_tokens/4/lstrip", "true", kUnsupported, "[4].lstrip: false expected"},
    {"added_flag", "/added_tokens/4/special", "1", kBroken, "[4].special: a boolean expected"},
    {"added_object", "/added_tokens", "{}", kBroken, "added_tokens: an array expected"},
    {"merge_number", "/model/merges/1", "7", kBroken, "model.merges[1]: \"left right\""},
    {"merge_no_space", "/model/merges/1", R"("ab")", kBroken, "model.merges[1]: \"left right\""},
    {"merge_three", "/model/merges/1", R"(["a", "b", "c"])", kBroken, "model.merges[1]: \"left"},
    {"merge_unknown", "/model/merges/1", R"(["a", "x"])", kBroken, "model.merges[1]: tokens \"a\""},
    {"merge_no_union", "/model/merges/1", R"(["b", "a"])", kBroken,
     "model.merges[1]: tokens \"b\""},
    {"merge_long", "/model/merges/1", quoted(kLong + " a"), kBroken, "model.merges[1]: tokens"},
    {"merges_object", "/model/merges", "{}", kBroken, "model.merges: an array expected"},
    {"unk_unknown", "/model/unk_token", R"("<u>")", kBroken, "model.unk_token: a token expected"},
};

INSTANTIATE_TEST_SUITE_P(All, TokenizerJsonBad, testing::ValuesIn(kBadJsons),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(TokenizerJson, RepeatedKeyInTheVocabularyIsRefused) {
  std::string text = small_json().dump();
  const size_t at = text.find("\"<0x00>\":4");
  text.insert(at, "\"<0x00>\":267,");
  const Result<Vocabulary> result = parse_tokenizer_json(bytes_of(text), "t.json");
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, HasSubstr("\"<0x00>\""));
}

TEST(TokenizerJson, EveryTruncationIsRefused) {
  const std::string text = small_json().dump();
  for (size_t length = 0; length < text.size(); ++length) {
    ASSERT_FALSE(parse_tokenizer_json(bytes_of(text).first(length), "t.json").ok()) << length;
  }
}

TEST(TokenizerJson, TokensThatOnlyLookLikeBytesAreOrdinary) {
  json document = small_json();
  int id = 266;
  document["added_tokens"].erase(4);
  for (const char* text : {"<0x-1>", "<0xGG>", "<0x4a>", "<0x+1>", "<0x001>"}) {
    document["model"]["vocab"][text] = id++;
  }
  Result<Vocabulary> result = parse(document);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result.value().types[266], TokenType::kNormal);
  const Result<Tokenizer> tokenizer = Tokenizer::create(std::move(result.value()));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  const int32_t ids[] = {266, 267, 268, 269, 270};
  EXPECT_EQ(tokenizer.value().decode(ids), "<0x-1><0xGG><0x4a><0x+1><0x001>");
}

TEST(TokenizerJson, MissingFileIsNamed) {
  const Result<Vocabulary> result = read_tokenizer_json("no/such/tokenizer.json");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(result.error().message, HasSubstr("no/such/tokenizer.json"));
}

}  // namespace
}  // namespace hf2q
