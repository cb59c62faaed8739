#include "tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <set>
#include <string>

#include "tokenizer/gemma3_for_tests.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/utf8.h"
#include "tokenizer/vocabulary_for_tests.h"

namespace hf2q {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;
using tokenizer_test::add_token;
using tokenizer_test::bytes_of;
using tokenizer_test::PlainBpe;
using tokenizer_test::small_json;

Vocabulary read_or_die(const std::string& path) {
  Result<Vocabulary> vocabulary = read_tokenizer_json(path);
  if (!vocabulary.ok()) ADD_FAILURE() << vocabulary.error().message;
  return std::move(vocabulary.value());
}

Tokenizer create_or_die(Vocabulary vocabulary) {
  Result<Tokenizer> tokenizer = Tokenizer::create(std::move(vocabulary));
  if (!tokenizer.ok()) ADD_FAILURE() << tokenizer.error().message;
  return std::move(tokenizer.value());
}

Tokenizer small_tokenizer(const json& document = small_json()) {
  return create_or_die(std::move(parse_tokenizer_json(bytes_of(document.dump()), "small").value()));
}

const Tokenizer& tiny() {
  static const Tokenizer kTiny =
      create_or_die(read_or_die(HF2Q_MODELS "/tiny-gemma4/tokenizer.json"));
  return kTiny;
}

json vectors(const char* part) {
  std::ifstream file(HF2Q_TEST_DATA "/tokenizer_vectors.json");
  return json::parse(file)[part];
}

// Calls check(case, text, ids with <bos>) for each vector of a part.
void expect_vectors(const Tokenizer& tokenizer, const json& cases) {
  for (const json& vector : cases) {
    const auto text = vector["text"].get<std::string>();
    const auto ids = vector["ids"].get<std::vector<int32_t>>();
    EXPECT_THAT(tokenizer.encode(text, {.add_bos = true}), ElementsAreArray(ids)) << text;
    EXPECT_EQ(tokenizer.decode(std::span(ids).subspan(1)), vector["decoded"].get<std::string>());
  }
}

TEST(Tokenizer, TinyVectors) {
  const json cases = vectors("tiny");
  ASSERT_EQ(cases.size(), 40U);
  expect_vectors(tiny(), cases);
  for (const json& vector : cases) {
    EXPECT_THAT(tiny().encode(vector["text"].get<std::string>()),
                ElementsAreArray(vector["ids_no_special"].get<std::vector<int32_t>>()));
  }
}

// The tokenizer.json of Gemma 3 where HF2Q_GEMMA3_TOKENIZER names it; tests/e2e/tokenizer_gemma3.sh
// fetches it and sets that.
class Gemma3Tokenizer : public testing::TestWithParam<std::string> {};

TEST_P(Gemma3Tokenizer, Vectors) {
  const Tokenizer tokenizer = create_or_die(read_or_die(GetParam()));
  EXPECT_EQ(tokenizer.n_tokens(), 262145U);
  const json cases = vectors("gemma3");
  ASSERT_EQ(cases.size(), 60U);
  expect_vectors(tokenizer, cases);
}

std::vector<std::string> gemma3_paths() {
  const char* path = gemma3_tokenizer_or(nullptr);
  return path == nullptr ? std::vector<std::string>{} : std::vector<std::string>{path};
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Gemma3Tokenizer);
INSTANTIATE_TEST_SUITE_P(File, Gemma3Tokenizer, testing::ValuesIn(gemma3_paths()),
                         [](const auto&) { return "json"; });

TEST(Tokenizer, UntrustedTextCannotNameSpecialTokens) {
  for (const char* marker : {"<bos>", "<eos>", "<|turn>", "<turn|>", "<|tool_call>", "<|\"|>"}) {
    const std::string text = fmt::format("a{}b", marker);
    const auto trusted = tiny().encode(text);
    EXPECT_EQ(trusted.size(), 3U) << marker;
    const auto untrusted = tiny().encode(text, {.parse_special = false});
    for (const int32_t id : untrusted) EXPECT_GT(id, 21) << marker;
    EXPECT_EQ(tiny().decode(untrusted), text);
  }
}

TEST(Tokenizer, AddedTokensMatchLeftmostThenLongest) {
  json document = small_json();
  int id = 267;
  for (const char* text : {"<<", "<<a", "<a b", "ca", "<a"}) {
    add_token(document, id++, text, false, false);
  }
  const Tokenizer tokenizer = small_tokenizer(document);
  EXPECT_THAT(tokenizer.encode("<<a b"), ElementsAre(268, 260, 262));
  EXPECT_THAT(tokenizer.encode("<a b"), ElementsAre(269));
  EXPECT_THAT(tokenizer.encode("<a c"), ElementsAre(271, 260, 263));
  EXPECT_THAT(tokenizer.encode("bcab"), ElementsAre(262, 270, 262));  // not b, c, ab
  EXPECT_THAT(tokenizer.encode("<<<|turn>"), ElementsAre(267, 266));
  EXPECT_THAT(tokenizer.encode("<<<|turn>", {.parse_special = false}).front(), 267);
}

TEST(Tokenizer, NormalizedAddedTokensMatchAfterSpacesHaveChanged) {
  json document = small_json();
  add_token(document, 267, "a b", false, true);
  const Tokenizer tokenizer = small_tokenizer(document);
  EXPECT_THAT(tokenizer.encode("ca bc"), ElementsAre(263, 267, 263));
  EXPECT_THAT(tokenizer.encode("ca\xE2\x96\x81"
                               "bc"),
              ElementsAre(263, 267, 263));
}

TEST(Tokenizer, InvalidUtf8BecomesByteTokens) {
  const Tokenizer tokenizer = small_tokenizer();
  const auto byte = [](int value) { return 4 + value; };
  EXPECT_THAT(tokenizer.encode("a\xFF"
                               "b"),
              ElementsAre(261, byte(0xFF), 262));
  EXPECT_THAT(tokenizer.encode("\xC3"), ElementsAre(byte(0xC3)));
  EXPECT_THAT(tokenizer.encode("\xED\xA0\x80"), ElementsAre(byte(0xED), byte(0xA0), byte(0x80)));
  EXPECT_THAT(tokenizer.encode("\xC0\xAF"), ElementsAre(byte(0xC0), byte(0xAF)));
  EXPECT_THAT(tokenizer.encode("\xE2\x96"
                               "ab"),
              ElementsAre(byte(0xE2), byte(0x96), 264));
  EXPECT_THAT(tokenizer.encode("\xF4\x90\x80\x80").size(), 4U);
}

// The known answers of HuggingFace's ByteFallback decoder.
TEST(Tokenizer, RunsOfBytesDecodeWholeOrNotAtAll) {
  const Tokenizer tokenizer = small_tokenizer();
  const auto decode = [&](std::vector<int> bytes, const char* then) {
    std::vector<int32_t> ids;
    for (const int value : bytes) ids.push_back(4 + value);
    for (const int32_t id : tokenizer.encode(then)) ids.push_back(id);
    return tokenizer.decode(ids);
  };
  EXPECT_EQ(decode({0x61}, ""), "a");
  EXPECT_EQ(decode({0xE5}, ""), "\uFFFD");
  EXPECT_EQ(decode({0xE5, 0x8F}, ""), "\uFFFD\uFFFD");
  EXPECT_EQ(decode({0xE5, 0x8F, 0xAB}, ""), "叫");
  EXPECT_EQ(decode({0xE5, 0x8F, 0xAB}, "a"), "叫a");
  EXPECT_EQ(decode({0xE5, 0x8F}, "a"), "\uFFFD\uFFFDa");
  EXPECT_EQ(decode({0x61, 0xFF}, "a"), "\uFFFD\uFFFDa");
}

TEST(StreamDecoder, PiecesAreWholeCharactersAndMakeUpTheText) {
  for (const json& vector : vectors("tiny")) {
    const auto ids = vector["ids"].get<std::vector<int32_t>>();
    StreamDecoder decoder(tiny());
    std::string text;
    for (const int32_t id : ids) {
      const std::string piece = decoder.push(id);
      EXPECT_NO_THROW(json(piece).dump()) << "throws on invalid UTF-8";
      text += piece;
    }
    text += decoder.finish();
    EXPECT_EQ(text, fmt::format("<bos>{}", vector["decoded"].get<std::string>()));
  }
}

TEST(StreamDecoder, HoldsBytesBackUntilTheirRunHasEnded) {
  const Tokenizer tokenizer = small_tokenizer();
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push(4 + 0xC3), "");
  EXPECT_EQ(decoder.push(4 + 0xA9), "");
  EXPECT_EQ(decoder.push(261), "éa");
  EXPECT_EQ(decoder.push(4 + 0xC3), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(Tokenizer, HiddenSpecialTokensLeaveOutputMarkersVisible) {
  const auto ids = tiny().encode("<|turn>model\n<|channel>x<channel|> y<turn|><eos>");
  EXPECT_EQ(tiny().decode(ids, SpecialText::kHide), "model\n<|channel>x<channel|> y");
  EXPECT_EQ(tiny().decode(ids), "<|turn>model\n<|channel>x<channel|> y<turn|><eos>");
}

TEST(Tokenizer, IdsOutsideOfTheVocabularyHaveNoText) {
  const int32_t ids[] = {344, -1, 8192, 1 << 30, 345};
  EXPECT_EQ(tiny().decode(ids), "ab");
  EXPECT_EQ(tiny().token_text(-1), "");
  EXPECT_EQ(tiny().token_text(8192), "");
}

TEST(Tokenizer, TextsRolesAndStops) {
  EXPECT_EQ(tiny().token_text(399), " ");
  EXPECT_EQ(tiny().token_text(22), "<0x00>");
  EXPECT_EQ(tiny().token_text(15), "<|turn>");
  EXPECT_EQ(tiny().find("<|turn>"), 15);
  EXPECT_EQ(tiny().find("no such token"), kNoToken);
  EXPECT_TRUE(tiny().is_stop(1) && tiny().is_stop(16) && tiny().is_stop(9));
  EXPECT_FALSE(tiny().is_stop(2) || tiny().is_stop(15));
}

struct BadVocabulary {
  const char* name;
  void (*spoil)(Vocabulary&);
  const char* message;
};

class TokenizerCreate : public testing::TestWithParam<BadVocabulary> {};

TEST_P(TokenizerCreate, RefusesNamingTheCause) {
  Vocabulary vocabulary = parse_tokenizer_json(bytes_of(small_json().dump()), "small").value();
  GetParam().spoil(vocabulary);
  const Result<Tokenizer> result = Tokenizer::create(std::move(vocabulary));
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, HasSubstr(GetParam().message));
}

const BadVocabulary kBadVocabularies[] = {
    {"no_bos", [](Vocabulary& v) { v.bos = kNoToken; }, "bos token: an id below 267 expected"},
    {"eos_range", [](Vocabulary& v) { v.eos = 267; }, "eos token: an id below 267 expected"},
    {"stop_range", [](Vocabulary& v) { v.stop_ids = {-7}; }, "stop token: an id below 267"},
    {"suppress_range", [](Vocabulary& v) { v.suppress_ids = {1 << 30}; }, "suppressed token"},
    {"added_range", [](Vocabulary& v) { v.added[0].id = -2; }, "added token"},
    {"byte_missing", [](Vocabulary& v) { v.tokens[5].back() = '?'; },
     "<0x01> of byte fallback is missing"},
    {"empty_text", [](Vocabulary& v) { v.tokens[7].clear(); }, "token 7: its text is empty"},
    {"merge_range", [](Vocabulary& v) { v.merges[1].merged = 300; },
     "merge 1: token ids below 267"},
    {"merge_twice", [](Vocabulary& v) { v.merges.push_back(v.merges[0]); },
     "merge 2: the same pair"},
    {"merge_byte", [](Vocabulary& v) { v.merges[0].left = 4; },
     "merge 0: the token of a byte, <0x00>"},
};

INSTANTIATE_TEST_SUITE_P(All, TokenizerCreate, testing::ValuesIn(kBadVocabularies),
                         [](const auto& info) { return std::string(info.param.name); });

std::string join(const std::vector<std::string>& pieces) {
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return text;
}

// A vocabulary over the characters a b c U+2581 newline, with merges whose ranks follow no order:
// a token may have several merges, and its halves may come later than itself.
Vocabulary random_vocabulary(std::mt19937& random) {
  Vocabulary vocabulary;
  vocabulary.tokens = {"<bos>"};
  vocabulary.bos = 0;
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary.tokens.push_back(token_of_byte(static_cast<uint8_t>(byte)));
  }
  const size_t first = vocabulary.tokens.size();
  for (const char* text : {"a", "b", "c", "\xE2\x96\x81", "\n"})
    vocabulary.tokens.emplace_back(text);
  std::set<std::pair<int32_t, int32_t>> pairs;
  const size_t n_merges = random() % 40;
  for (size_t i = 0; i < n_merges; ++i) {
    const auto pick = [&] {
      return static_cast<int32_t>(first + random() % (vocabulary.tokens.size() - first));
    };
    const int32_t left = pick();
    const int32_t right = pick();
    const std::string text = vocabulary.tokens[static_cast<size_t>(left)] +
                             vocabulary.tokens[static_cast<size_t>(right)];
    if (text.size() > 20 || !pairs.insert({left, right}).second) continue;
    int32_t merged = find_token(vocabulary, text);
    if (merged == kNoToken) {
      merged = static_cast<int32_t>(vocabulary.tokens.size());
      vocabulary.tokens.push_back(text);
    }
    vocabulary.merges.push_back({left, right, merged});
  }
  std::ranges::shuffle(vocabulary.merges, random);
  vocabulary.types.assign(vocabulary.tokens.size(), TokenType::kNormal);
  return vocabulary;
}

TEST(Bpe, EqualsPlainEncoderOnRandomVocabularies) {
  std::mt19937 random(7);
  const std::vector<std::string> alphabet = {"a", "b", "c", " ", "\n", "\xE2\x96\x81", "é", "\xFF"};
  for (int round = 0; round < 300; ++round) {
    const Vocabulary vocabulary = random_vocabulary(random);
    const PlainBpe plain(vocabulary);
    const Tokenizer tokenizer = create_or_die(vocabulary);
    for (int i = 0; i < 20; ++i) {
      // Few kinds of characters give parts beyond the length where the heap takes over.
      const size_t n_kinds = 1 + random() % alphabet.size();
      std::vector<std::string> characters(random() % 160);
      for (std::string& character : characters) character = alphabet[random() % n_kinds];
      const std::string text = join(characters);
      ASSERT_EQ(tokenizer.encode(text), plain.encode(characters)) << text;
    }
  }
}

TEST(Bpe, EqualsPlainEncoderOnPiecesOfTheVocabulary) {
  std::mt19937 random(8);
  const Vocabulary& vocabulary = tiny().vocabulary();
  const PlainBpe plain(vocabulary);
  const std::vector<std::string> others = {" ", "\n", "  ",   "\n\n",  "👩‍👧",
                                           "é", "中", "\xFF", "<0x41>"};
  for (int i = 0; i < 1500; ++i) {
    std::string text;
    for (size_t n = random() % 24; n > 0; --n) {
      text += random() % 4 == 0
                  ? others[random() % others.size()]
                  : vocabulary.tokens[278 + random() % (vocabulary.tokens.size() - 278)];
    }
    std::vector<std::string> characters;
    for (std::string_view rest = text; !rest.empty();) {
      const size_t length = std::min(rest.size(), size_t{first_code_point(rest).n_bytes});
      characters.emplace_back(rest.substr(0, length));
      rest.remove_prefix(length);
    }
    ASSERT_EQ(tiny().encode(text), plain.encode(characters)) << text;
  }
}

TEST(Tokenizer, SpecialMarkersSplitTextIntoIndependentParts) {
  std::mt19937 random(9);
  const std::vector<std::string> parts = {"the",          " cat", "\n\n", "é",
                                          "\xE2\x96\x81", "<|tu", "rn>",  "\xC3"};
  for (int i = 0; i < 500; ++i) {
    std::string text;
    std::vector<int32_t> expected;
    for (size_t n = random() % 6; n > 0; --n) {
      std::string part;
      for (size_t k = random() % 5; k > 0; --k) part += parts[random() % (parts.size() - 2)];
      text += part + "<turn|>";
      for (const int32_t id : tiny().encode(part)) expected.push_back(id);
      expected.push_back(16);
    }
    ASSERT_EQ(tiny().encode(text), expected) << text;
  }
}

TEST(Tokenizer, EncodedTextDecodesToItself) {
  std::mt19937 random(10);
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (size_t n = random() % 50; n > 0; --n) {
      text += tiny().token_text(static_cast<int32_t>(278 + random() % 7900));
    }
    EXPECT_EQ(tiny().decode(tiny().encode(text, {.parse_special = false})), text);
  }
}

}  // namespace
}  // namespace hf2q
