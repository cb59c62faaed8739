#include "tokenizer/gguf_vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>

#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/vocabulary_for_tests.h"

namespace hf2q {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using tokenizer_test::add_token;
using tokenizer_test::bytes_of;
using tokenizer_test::small_json;

// Writes a file with this metadata, calls check(file) and removes it.
template <class Check>
void with_file(const GgufMetadata& metadata, const Check& check) {
  const std::string path =
      fmt::format("{}/hf2q_vocabulary_test_{}.gguf", testing::TempDir(), getpid());
  Result<GgufWriter> writer = GgufWriter::create(path, metadata, {});
  ASSERT_TRUE(writer.ok()) << writer.error().message;
  ASSERT_TRUE(writer.value().commit().ok());
  const Result<GgufFile> file = GgufFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  check(file.value());
  std::filesystem::remove(path);
}

void expect_read(const GgufMetadata& metadata, const Vocabulary& expected) {
  with_file(metadata, [&](const GgufFile& file) {
    const Result<Vocabulary> vocabulary = read_gguf_vocabulary(file);
    ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
    EXPECT_TRUE(vocabulary.value() == expected);
  });
}

Vocabulary small_vocabulary() {
  nlohmann::json document = small_json();
  add_token(document, 267, "<table>", false, false);
  add_token(document, 268, "b c", false, true);
  add_token(document, 269, "<|channel>", true, false);
  return parse_tokenizer_json(bytes_of(document.dump()), "small").value();
}

GgufMetadata written(const Vocabulary& vocabulary) {
  GgufMetadata metadata;
  write_vocabulary(vocabulary, metadata);
  return metadata;
}

TEST(GgufVocabulary, ComesBackAsItWasWritten) {
  Vocabulary vocabulary = small_vocabulary();
  vocabulary.chat_template = "{{ bos_token }}";
  vocabulary.suppress_ids = {267, 3};
  vocabulary.stop_ids = {268, 1};
  expect_read(written(vocabulary), vocabulary);
}

TEST(GgufVocabulary, TinyModelComesBackAsItWasWritten) {
  const Result<Vocabulary> vocabulary =
      read_tokenizer_json(HF2Q_MODELS "/tiny-gemma4/tokenizer.json");
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
  expect_read(written(vocabulary.value()), vocabulary.value());
}

TEST(GgufVocabulary, TypesAreReadOffTheTextsWhereAFileHasNone) {
  const Vocabulary vocabulary =
      read_tokenizer_json(HF2Q_MODELS "/tiny-gemma4/tokenizer.json").value();
  GgufMetadata metadata = written(vocabulary);
  metadata.remove("tokenizer.ggml.token_type");
  expect_read(metadata, vocabulary);
  Vocabulary small = small_vocabulary();
  small.types[267] = TokenType::kNormal;  // "<table>" is no marker by its text,
  small.types[268] = TokenType::kNormal;  // and "b c" neither
  metadata = written(small);
  metadata.remove("tokenizer.ggml.token_type");
  expect_read(metadata, small);
}

TEST(GgufVocabulary, SpacesInsideOfMergesAreWrittenAsTheirMark) {
  Vocabulary vocabulary = small_vocabulary();
  for (const char* text : {"a ", "a b", "\u0120", "a\u0120"}) {
    vocabulary.tokens.emplace_back(text);
    vocabulary.types.push_back(TokenType::kNormal);
  }
  vocabulary.merges.push_back({270, 262, 271});  // "a " and "b"
  vocabulary.merges.push_back({261, 272, 273});  // "a" and U+0120 itself
  with_file(written(vocabulary), [&](const GgufFile& file) {
    const auto merges = file.get_strings("tokenizer.ggml.merges");
    ASSERT_TRUE(merges.ok());
    EXPECT_THAT(merges.value(), ElementsAre("a b", "▁ ab", "a\u0120 b", "a \u0120"));
    const Result<Vocabulary> read = read_gguf_vocabulary(file);
    ASSERT_TRUE(read.ok()) << read.error().message;
    // "a U+0120" is a token as well, so the file's "aU+0120" half means that one.
    EXPECT_EQ(read.value().merges[3], (Merge{261, 272, 273}));
  });
}

TEST(GgufVocabulary, KeysHaveTheirOrderAndTypes) {
  Vocabulary vocabulary = small_vocabulary();
  vocabulary.chat_template = "x";
  vocabulary.suppress_ids = {3};
  vocabulary.mask = 4;
  const std::pair<std::string_view, ValueType> expected[] = {
      {"tokenizer.ggml.model", ValueType::kString},
      {"tokenizer.ggml.tokens", ValueType::kArray},
      {"tokenizer.ggml.scores", ValueType::kArray},
      {"tokenizer.ggml.token_type", ValueType::kArray},
      {"tokenizer.ggml.merges", ValueType::kArray},
      {"tokenizer.ggml.bos_token_id", ValueType::kU32},
      {"tokenizer.ggml.eos_token_id", ValueType::kU32},
      {"tokenizer.ggml.unknown_token_id", ValueType::kU32},
      {"tokenizer.ggml.padding_token_id", ValueType::kU32},
      {"tokenizer.ggml.mask_token_id", ValueType::kU32},
      {"tokenizer.chat_template", ValueType::kString},
      {"tokenizer.ggml.add_space_prefix", ValueType::kBool},
      {"tokenizer.ggml.add_bos_token", ValueType::kBool},
      {"tokenizer.ggml.suppress_tokens", ValueType::kArray},
      {"hf2q.stop_token_ids", ValueType::kArray},
      {"hf2q.added_token_ids", ValueType::kArray},
      {"hf2q.normalized_token_ids", ValueType::kArray},
  };
  const GgufMetadata metadata = written(vocabulary);
  ASSERT_EQ(metadata.entries().size(), std::size(expected));
  for (size_t i = 0; i < std::size(expected); ++i) {
    EXPECT_EQ(metadata.entries()[i].key, expected[i].first);
    EXPECT_EQ(metadata.entries()[i].type, expected[i].second) << expected[i].first;
  }
  with_file(metadata, [](const GgufFile& file) {
    EXPECT_EQ(file.get_string("tokenizer.ggml.model").value(), "gemma4");
    EXPECT_THAT(file.find("tokenizer.ggml.scores")->as_f32s().value(), Each(-1000.0F));
    EXPECT_EQ(file.find("tokenizer.ggml.scores")->count, 270U);
    EXPECT_EQ(file.get_integers("tokenizer.ggml.token_type").value()[269], 4);
    EXPECT_FALSE(file.get_bool("tokenizer.ggml.add_space_prefix").value());
    EXPECT_TRUE(file.get_bool("tokenizer.ggml.add_bos_token").value());
  });
}

// A file by another converter: no hf2q keys, and what is known of them.
GgufMetadata foreign() {
  GgufMetadata metadata = written(small_vocabulary());
  metadata.remove("hf2q.stop_token_ids");
  metadata.remove("hf2q.added_token_ids");
  metadata.remove("hf2q.normalized_token_ids");
  return metadata;
}

TEST(GgufVocabulary, ForeignFileGivesAddedTokensByTypeAndStopsByText) {
  GgufMetadata metadata = foreign();
  metadata.set_string("tokenizer.ggml.model", "llama");
  metadata.set_string("tokenizer.ggml.pre", "gemma4");
  metadata.set_u32("tokenizer.ggml.eos_token_id", 266);
  metadata.set_bool("tokenizer.ggml.add_bos_token", false);
  with_file(metadata, [](const GgufFile& file) {
    const Result<Vocabulary> result = read_gguf_vocabulary(file);
    ASSERT_TRUE(result.ok()) << result.error().message;
    const Vocabulary& vocabulary = result.value();
    EXPECT_THAT(vocabulary.stop_ids, ElementsAre(266, 1));
    EXPECT_TRUE(vocabulary.add_bos);
    EXPECT_THAT(vocabulary.added,
                ElementsAre(AddedToken{0, true, false}, AddedToken{1, true, false},
                            AddedToken{2, true, false}, AddedToken{3, true, false},
                            AddedToken{266, true, false}, AddedToken{267, false, false},
                            AddedToken{268, false, false}, AddedToken{269, true, false}));
  });
}

TEST(GgufVocabulary, ScoresMayBeAbsent) {
  GgufMetadata metadata = written(small_vocabulary());
  metadata.remove("tokenizer.ggml.scores");
  expect_read(metadata, small_vocabulary());
}

void set_merges(GgufMetadata& metadata, std::string_view merge) {
  metadata.set_strings("tokenizer.ggml.merges", std::span(&merge, 1));
}

TEST(GgufVocabulary, MergesThatAllStandForNothingAreNone) {
  GgufMetadata metadata = written(small_vocabulary());
  set_merges(metadata, "a x");
  Vocabulary expected = small_vocabulary();
  expected.merges.clear();
  expect_read(metadata, expected);
}

struct BadCase {
  const char* name;
  void (*spoil)(GgufMetadata&);
  ErrorCode code;
  const char* message;
};

class GgufVocabularyBad : public testing::TestWithParam<BadCase> {};

TEST_P(GgufVocabularyBad, IsRefusedNamingTheKey) {
  GgufMetadata metadata = written(small_vocabulary());
  GetParam().spoil(metadata);
  with_file(metadata, [&](const GgufFile& file) {
    const Result<Vocabulary> result = read_gguf_vocabulary(file);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, GetParam().code);
    EXPECT_THAT(result.error().message, HasSubstr(file.path()));
    EXPECT_THAT(result.error().message, HasSubstr(GetParam().message));
  });
}

void set_first_token(GgufMetadata& metadata, const std::string& text) {
  const Vocabulary vocabulary = small_vocabulary();
  std::vector<std::string_view> tokens(vocabulary.tokens.begin(), vocabulary.tokens.end());
  tokens[0] = text;
  metadata.set_strings("tokenizer.ggml.tokens", tokens);
}

constexpr ErrorCode kCorrupt = ErrorCode::kCorrupt;
const BadCase kBadCases[] = {
    {"no_model", [](GgufMetadata& m) { m.remove("tokenizer.ggml.model"); }, ErrorCode::kNotFound,
     "tokenizer.ggml.model"},
    {"gpt2", [](GgufMetadata& m) { m.set_string("tokenizer.ggml.model", "gpt2"); },
     ErrorCode::kUnsupported, "tokenizer.ggml.model: gemma4, or llama with merges, expected"},
    {"llama_without_merges",
     [](GgufMetadata& m) {
       m.set_string("tokenizer.ggml.model", "llama");
       m.remove("tokenizer.ggml.merges");
     },
     ErrorCode::kUnsupported, "found \"llama\""},
    {"tokens_integers",
     [](GgufMetadata& m) {
       m.set_integers("tokenizer.ggml.tokens", std::vector<int32_t>{1, 2});
     },
     kCorrupt, "tokenizer.ggml.tokens"},
    {"token_empty", [](GgufMetadata& m) { set_first_token(m, ""); }, kCorrupt,
     "tokenizer.ggml.tokens[0]: 1 to 1024 bytes of UTF-8 expected, found 0 bytes"},
    {"token_long", [](GgufMetadata& m) { set_first_token(m, std::string(1025, 'x')); }, kCorrupt,
     "found 1025 bytes"},
    {"token_not_utf8", [](GgufMetadata& m) { set_first_token(m, "\xFF"); }, kCorrupt,
     "tokenizer.ggml.tokens[0]"},
    {"types_short",
     [](GgufMetadata& m) { m.set_integers("tokenizer.ggml.token_type", std::vector<int32_t>{1}); },
     kCorrupt, "tokenizer.ggml.token_type: 270 values expected, one for each token, found 1"},
    {"type_unknown",
     [](GgufMetadata& m) {
       m.set_integers("tokenizer.ggml.token_type", std::vector<int32_t>(270, 7));
     },
     kCorrupt, "tokenizer.ggml.token_type[0]: 1 to 6 expected, found 7"},
    {"merge_unknown_half",
     [](GgufMetadata& m) {
       const std::string_view merges[] = {"a b", "a x"};
       m.set_strings("tokenizer.ggml.merges", merges);
     },
     kCorrupt, "tokenizer.ggml.merges[1]: two tokens and their union expected, found \"a x\""},
    {"merges_too_many",
     [](GgufMetadata& m) {
       const std::vector<std::string_view> merges((size_t{1} << 22) + 1, "a b");
       m.set_strings("tokenizer.ggml.merges", merges);
     },
     kCorrupt, "tokenizer.ggml.merges: at most 4194304 expected, found 4194305"},
    {"token_twice", [](GgufMetadata& m) { set_first_token(m, "ab"); }, kCorrupt,
     "a text of its own expected, found \"ab\" again"},
    {"byte_of_no_byte",
     [](GgufMetadata& m) {
       m.set_integers("tokenizer.ggml.token_type", std::vector<int32_t>(270, 6));
     },
     kCorrupt, "tokenizer.ggml.tokens[0]: <0x00> to <0xFF> expected for a byte, found"},
    {"add_bos_number", [](GgufMetadata& m) { m.set_u32("tokenizer.ggml.add_bos_token", 1); },
     kCorrupt, "tokenizer.ggml.add_bos_token"},
    {"merge_empty_half", [](GgufMetadata& m) { set_merges(m, "a "); }, kCorrupt,
     "tokenizer.ggml.merges[0]: two halves parted by a space expected, found \"a \""},
    {"merge_without_space", [](GgufMetadata& m) { set_merges(m, "ab"); }, kCorrupt,
     "tokenizer.ggml.merges[0]: two halves parted by a space expected, found \"ab\""},
    {"merge_without_left_half", [](GgufMetadata& m) { set_merges(m, " b"); }, kCorrupt,
     "two halves parted by a space expected, found \" b\""},
    {"merge_empty", [](GgufMetadata& m) { set_merges(m, ""); }, kCorrupt, "found \"\""},
    {"scores_short",
     [](GgufMetadata& m) { m.set_f32s("tokenizer.ggml.scores", std::vector<float>(269, 0.0F)); },
     kCorrupt, "tokenizer.ggml.scores: 270 values expected, one for each token, found "},
    {"scores_number", [](GgufMetadata& m) { m.set_f32("tokenizer.ggml.scores", 1.0F); }, kCorrupt,
     "tokenizer.ggml.scores: 270 values expected"},
    {"bos_range", [](GgufMetadata& m) { m.set_u32("tokenizer.ggml.bos_token_id", 270); }, kCorrupt,
     "tokenizer.ggml.bos_token_id: an id below 270 expected, found 270"},
    {"eos_text", [](GgufMetadata& m) { m.set_string("tokenizer.ggml.eos_token_id", "1"); },
     kCorrupt, "tokenizer.ggml.eos_token_id"},
    {"stop_negative",
     [](GgufMetadata& m) { m.set_integers("hf2q.stop_token_ids", std::vector<int32_t>{-1}); },
     kCorrupt, "hf2q.stop_token_ids: an id below 270 expected, found -1"},
    {"added_range",
     [](GgufMetadata& m) { m.set_integers("hf2q.added_token_ids", std::vector<int32_t>{270}); },
     kCorrupt, "hf2q.added_token_ids: an id below 270"},
    {"template_number", [](GgufMetadata& m) { m.set_u32("tokenizer.chat_template", 1); }, kCorrupt,
     "tokenizer.chat_template"},
};

INSTANTIATE_TEST_SUITE_P(All, GgufVocabularyBad, testing::ValuesIn(kBadCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hf2q
