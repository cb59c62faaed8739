#include "vision/mrope_positions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace hf2q {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int32_t> axis(const MropePositions& positions, size_t a) {
  const size_t n = positions.values.size() / kMropeAxes;
  const auto begin = positions.values.begin() + static_cast<ptrdiff_t>(a * n);
  return {begin, begin + static_cast<ptrdiff_t>(n)};
}

MropePositions positions(uint32_t n, std::vector<ImageGrid> images) {
  Result<MropePositions> result = mrope_positions(n, images);
  EXPECT_TRUE(result.ok());
  return result.ok() ? std::move(result.value()) : MropePositions{};
}

std::string refusal(uint32_t n, std::vector<ImageGrid> images) {
  const Result<MropePositions> result = mrope_positions(n, images);
  return result.ok() ? "accepted" : result.error().message;
}

TEST(MropePositions, TextCounts) {
  for (size_t a = 0; a < kMropeAxes; ++a) {
    EXPECT_THAT(axis(positions(5, {}), a), ElementsAre(0, 1, 2, 3, 4));
  }
  EXPECT_EQ(positions(5, {}).next, 5);
  EXPECT_TRUE(positions(0, {}).values.empty());
}

TEST(MropePositions, ImagesSpanTheirGrid) {
  const MropePositions wide = positions(9, {{3, 2, 2}});
  EXPECT_THAT(axis(wide, 0), ElementsAre(0, 1, 2, 2, 2, 2, 2, 2, 5));
  EXPECT_THAT(axis(wide, 1), ElementsAre(0, 1, 2, 2, 2, 3, 3, 3, 5));
  EXPECT_THAT(axis(wide, 2), ElementsAre(0, 1, 2, 3, 4, 2, 3, 4, 5));
  EXPECT_THAT(axis(wide, 3), ElementsAre(0, 1, 0, 0, 0, 0, 0, 0, 5));
  EXPECT_THAT(axis(positions(16, {{2, 2, 1}, {3, 3, 6}}), 0),
              ElementsAre(0, 1, 1, 1, 1, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 7));
  EXPECT_THAT(axis(positions(6, {{3, 2, 0}}), 1), ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_THAT(axis(positions(5, {{2, 2, 0}}), 0), ElementsAre(0, 0, 0, 0, 2));
  EXPECT_THAT(axis(positions(5, {{2, 2, 0}}), 2), ElementsAre(0, 1, 0, 1, 2));
}

TEST(MropePositions, TimeAdvancesByTheLargerSide) {
  EXPECT_EQ(positions(24 * 24, {{24, 24, 0}}).next, 24);
  EXPECT_EQ(positions(32 * 16, {{32, 16, 0}}).next, 32);
  EXPECT_EQ(positions(8 * 40, {{8, 40, 0}}).next, 40);
}

// What comes behind a prompt that ends in an image: the same as if it had gone on.
TEST(MropePositions, GoesOnBehindAnImage) {
  const MropePositions prompt = positions(8, {{3, 2, 2}});
  const MropePositions longer = positions(9, {{3, 2, 2}});
  for (size_t a = 0; a < kMropeAxes; ++a) EXPECT_EQ(prompt.next, axis(longer, a).back());
}

TEST(MropePositions, WhatCannotBeIsRefused) {
  EXPECT_THAT(refusal(20, {{4, 4, 0}, {2, 2, 10}}), HasSubstr("image 1: a start from 16 on"));
  EXPECT_THAT(refusal(30, {{2, 2, 20}, {2, 2, 0}}), HasSubstr("image 1: a start from 24 on"));
  EXPECT_THAT(refusal(20, {{4, 4, 10}}), HasSubstr("image 0: an end of at most 20"));
  EXPECT_THAT(refusal(10, {{0, 5, 0}}), HasSubstr("image 0: at least one token"));
  EXPECT_THAT(refusal(0, {{1, 1, 0}}), HasSubstr("image 0: an end of at most 0"));
  EXPECT_THAT(refusal(UINT32_MAX, {{1U << 16, 1U << 16, 5}}), HasSubstr("an end of at most"));
  EXPECT_THAT(refusal(UINT32_MAX, {{UINT32_MAX, UINT32_MAX, UINT32_MAX}}),
              HasSubstr("an end of at most"));
  EXPECT_EQ(refusal(8, {{2, 2, 0}, {2, 2, 4}}), "accepted");  // one directly behind the other
}

// Expected values of the reference implementation.
TEST(MropePositions, MatchTheReference) {
  std::ifstream file(HF2Q_TEST_DATA "/mrope_positions.json");
  const auto cases = nlohmann::json::parse(file);
  ASSERT_GE(cases.size(), 3U);
  for (const auto& expected : cases) {
    std::vector<ImageGrid> images;
    for (size_t i = 0; i < expected["starts"].size(); ++i) {
      images.push_back(
          {expected["grids_nx_ny"][i][0], expected["grids_nx_ny"][i][1], expected["starts"][i]});
    }
    const auto n = static_cast<uint32_t>(expected["token_types"].size());
    const MropePositions found = positions(n, images);
    EXPECT_EQ(axis(found, 0), expected["t"].get<std::vector<int32_t>>());
    EXPECT_EQ(axis(found, 1), expected["h"].get<std::vector<int32_t>>());
    EXPECT_EQ(axis(found, 2), expected["w"].get<std::vector<int32_t>>());
    EXPECT_EQ(found.next, static_cast<int32_t>(n) + expected["delta"].get<int32_t>());
  }
}

}  // namespace
}  // namespace hf2q
