#include "tokenizer/pair_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace hf2q {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

std::vector<std::pair<uint32_t, uint32_t>> drain(PairQueue& queue) {
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  while (const auto pair = queue.pop()) pairs.emplace_back(pair->rank, pair->position);
  return pairs;
}

TEST(PairQueue, OrdersByRankThenPosition) {
  PairQueue queue;
  EXPECT_THAT(drain(queue), IsEmpty());
  queue.push(900, 4);
  queue.push(3, 8);
  queue.push(900, 2);
  queue.push(3, 9);
  queue.push(900, 7);
  EXPECT_THAT(drain(queue),
              ElementsAre(Pair(3, 8), Pair(3, 9), Pair(900, 2), Pair(900, 4), Pair(900, 7)));
  queue.push(0, 0);
  EXPECT_THAT(drain(queue), ElementsAre(Pair(0, 0)));
}

TEST(PairQueue, LowerRanksInterruptARun) {
  PairQueue queue;
  for (uint32_t position : {1, 2, 3}) queue.push(50, position);
  EXPECT_EQ(queue.pop()->position, 1U);
  queue.push(60, 0);
  queue.push(20, 9);
  queue.push(20, 5);
  EXPECT_EQ(queue.pop()->position, 5U);
  queue.push(10, 7);
  EXPECT_THAT(drain(queue),
              ElementsAre(Pair(10, 7), Pair(20, 9), Pair(50, 2), Pair(50, 3), Pair(60, 0)));
}

}  // namespace
}  // namespace hf2q
