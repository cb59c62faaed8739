#include "sample/file_sampling.h"

#include <gtest/gtest.h>

#include "gguf/test_file.h"

namespace hf2q {
namespace {

Result<SamplingParams> read(const test::TestFile& made) {
  const std::vector<std::byte> bytes = made.bytes();
  const Result<GgufFile> file = GgufFile::parse(bytes, "m.gguf");
  EXPECT_TRUE(file.ok());
  return read_sampling(file.value());
}

TEST(FileSampling, AbsentKeysAreTheDefaults) {
  const auto params = read({});
  ASSERT_TRUE(params.ok());
  EXPECT_EQ(params.value().temperature, 1.0F);
  EXPECT_EQ(params.value().top_k, 0);
  EXPECT_EQ(params.value().top_p, 1.0F);
  EXPECT_EQ(params.value().min_p, 0.0F);
}

TEST(FileSampling, EveryKeyIsRead) {
  test::TestFile file;
  file.key("general.sampling.temp", test::kF32, test::bytes_of(0.5F));
  file.key("general.sampling.top_p", test::kF32, test::bytes_of(0.25F));
  file.key("general.sampling.min_p", test::kF32, test::bytes_of(0.125F));
  file.key("general.sampling.top_k", test::kI32, test::bytes_of(64));
  const auto params = read(file);
  ASSERT_TRUE(params.ok());
  EXPECT_EQ(params.value().temperature, 0.5F);
  EXPECT_EQ(params.value().top_p, 0.25F);
  EXPECT_EQ(params.value().min_p, 0.125F);
  EXPECT_EQ(params.value().top_k, 64);
  test::TestFile unsigned_top_k;
  unsigned_top_k.key("general.sampling.top_k", test::kU32, test::bytes_of(40U));
  EXPECT_EQ(read(unsigned_top_k).value().top_k, 40);
}

struct BadKey {
  const char* key;
  uint32_t type;
  test::Bytes value;
  const char* message;
};

TEST(FileSampling, WhatCannotBeMeantIsBadInput) {
  const BadKey cases[] = {
      {"temp", test::kF32, test::bytes_of(-1.0F),
       "general.sampling.temp: temperature: a number from 0 up expected, found -1"},
      {"top_p", test::kF32, test::bytes_of(1.5F),
       "general.sampling.top_p: top_p: 0 to 1 expected, found 1.5"},
      {"min_p", test::kF32, test::bytes_of(-0.5F),
       "general.sampling.min_p: min_p: 0 to 1 expected, found -0.5"},
      {"top_k", test::kF32, test::bytes_of(1.0F),
       "general.sampling.top_k: i32 expected, found f32"},
      {"top_p", test::kF64, test::bytes_of(0.5),
       "key 'general.sampling.top_p': f32 expected, found f64"},
  };
  for (const BadKey& bad : cases) {
    test::TestFile file;
    file.key(std::string("general.sampling.").append(bad.key), bad.type, bad.value);
    const auto params = read(file);
    ASSERT_FALSE(params.ok()) << bad.key;
    EXPECT_EQ(params.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(params.error().message, fmt::format("m.gguf: {}", bad.message));
  }
}

}  // namespace
}  // namespace hf2q
