#include "sample/sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "sample/exponential.h"
#include "sample/philox.h"

namespace hf2q {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The known answers that come with the authors' Random123 library.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox_4x32_10({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox_4x32_10({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox_4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformTakesTheTop53Bits) {
  EXPECT_EQ(uniform_at(0, 0, 0), std::ldexp(double(0x6627e8d5e169c58d >> 11), -53));
}

TEST(Philox, EachIndexMatters) {
  const std::set<double> values = {uniform_at(1, 2, 3),          uniform_at(2, 2, 3),
                                   uniform_at(1, 3, 3),          uniform_at(1, 2, 4),
                                   uniform_at(1ULL << 40, 2, 3), uniform_at(1, 2, 1ULL << 40)};
  EXPECT_EQ(values.size(), 6U);
}

TEST(Exponential, MatchesTheLibrary) {
  for (float x = 0; x >= -700; x -= 0.0137F) {
    EXPECT_NEAR(exp_non_positive(x) / std::exp(double{x}), 1, 1e-11) << x;
  }
  EXPECT_EQ(exp_non_positive(0), 1);
  EXPECT_EQ(exp_non_positive(-0.0F), 1);
  EXPECT_LT(exp_non_positive(-701), 1e-303);
  EXPECT_LT(exp_non_positive(-kInfinity), 1e-303);
}

TEST(Exponential, SumMatchesLongDouble) {
  for (size_t n : {1, 7, 8, 9, 1003}) {
    std::vector<float> logits(n);
    long double expected = 0;
    for (size_t i = 0; i < n; ++i) {
      logits[i] = -static_cast<float>(i % 37) * 0.9F;
      expected += std::exp(static_cast<long double>(logits[i]));
    }
    EXPECT_NEAR(exp_sum(logits, 0) / static_cast<double>(expected), 1, 1e-11) << n;
  }
}

SamplingParams with(auto set) {
  SamplingParams params;
  set(params);
  return params;
}

int32_t sample_ok(const SampleInput& input, const SamplingParams& params) {
  SampleScratch scratch;
  Result<int32_t> token = sample(input, params, scratch);
  EXPECT_TRUE(token.ok()) << token.error().message;
  return token.ok() ? token.value() : -1;
}

// What came in 3,000 draws.
std::set<int32_t> seen(std::span<const float> logits, const SamplingParams& base) {
  std::set<int32_t> tokens;
  SamplingParams params = base;
  for (params.seed = 0; params.seed < 3000; ++params.seed) {
    tokens.insert(sample_ok({.logits = logits}, params));
  }
  return tokens;
}

// p = 0.6439 0.2369 0.0871 0.0321.
constexpr float kFour[] = {2, 1, 0, -1};

TEST(Sample, FiltersKeepWhatTheyShould) {
  using Tokens = std::set<int32_t>;
  EXPECT_EQ(seen(kFour, {}), (Tokens{0, 1, 2, 3}));
  EXPECT_EQ(seen(kFour, with([](auto& p) { p.top_k = 3; })), (Tokens{0, 1, 2}));
  EXPECT_EQ(seen(kFour, with([](auto& p) { p.top_p = 0.64F; })), (Tokens{0}));
  EXPECT_EQ(seen(kFour, with([](auto& p) { p.top_p = 0.65F; })), (Tokens{0, 1}));
  EXPECT_EQ(seen(kFour, with([](auto& p) { p.top_p = 0.89F; })), (Tokens{0, 1, 2}));
  EXPECT_EQ(seen(kFour, with([](auto& p) { p.top_p = 0; })), (Tokens{0}));
  EXPECT_EQ(seen(kFour, with([](auto& p) { p.min_p = 0.37F; })), (Tokens{0}));
  EXPECT_EQ(seen(kFour, with([](auto& p) { p.min_p = 0.36F; })), (Tokens{0, 1}));
  // Top-p is a share of what top-k left: 0.6439 / (0.6439 + 0.2369) = 0.731.
  EXPECT_EQ(seen(kFour, with([](auto& p) { p.top_k = 2, p.top_p = 0.73F; })), (Tokens{0}));
  // Who reaches the bound is enough for top-p, and survives min-p: likelihoods of 1 are exact.
  const std::vector<float> equal = {2, 2, 2, 2};
  EXPECT_EQ(seen(equal, with([](auto& p) { p.top_p = 0.5F; })), (Tokens{0, 1}));
  EXPECT_EQ(seen(equal, with([](auto& p) { p.top_k = 4, p.top_p = 0.5F; })), (Tokens{0, 1}));
  EXPECT_EQ(seen(equal, with([](auto& p) { p.min_p = 1; })), (Tokens{0, 1, 2, 3}));
  // Filters come before temperature.
  EXPECT_EQ(seen(kFour, with([](auto& p) { p.top_p = 0.64F, p.temperature = 50; })), (Tokens{0}));
}

TEST(Sample, TiesGoToTheLowerId) {
  const std::vector<float> equal(40, 1.5F);
  EXPECT_EQ(sample_ok({.logits = equal}, with([](auto& p) { p.temperature = 0; })), 0);
  EXPECT_EQ(seen(equal, with([](auto& p) { p.top_k = 3; })), (std::set<int32_t>{0, 1, 2}));
  EXPECT_EQ(seen(equal, with([](auto& p) { p.top_p = 0.049F; })), (std::set<int32_t>{0, 1}));
}

TEST(Sample, PenaltiesByHand) {
  // Greedy shows which logit is on top; token 1 has 1.0 throughout.
  const auto greedy = [](std::vector<float> logits, std::vector<int32_t> prompt,
                         std::vector<int32_t> answer, auto set) {
    SamplingParams params = with(set);
    params.temperature = 0;
    return sample_ok({.logits = logits, .prompt = prompt, .answer = answer}, params);
  };
  const auto repeat = [](float x) { return [x](auto& p) { p.repeat_penalty = x; }; };
  EXPECT_EQ(greedy({2, 1}, {0}, {}, repeat(1.9F)), 0);
  EXPECT_EQ(greedy({2, 1}, {0}, {}, repeat(2.1F)), 1);       // 2 / 2.1
  EXPECT_EQ(greedy({2, 1}, {0}, {0, 0}, repeat(1.9F)), 0);   // once, however often it was seen
  EXPECT_EQ(greedy({-1, -1.5F}, {}, {0}, repeat(1.6F)), 1);  // -1 * 1.6
  EXPECT_EQ(greedy({-1, -1.5F}, {}, {0}, repeat(1.4F)), 0);
  const auto last = [](int64_t n) {
    return [n](auto& p) { p.repeat_penalty = 3, p.penalty_last_n = n; };
  };
  EXPECT_EQ(greedy({2, 1, 0}, {0, 2}, {2}, last(2)), 0);
  EXPECT_EQ(greedy({2, 1, 0}, {0, 2}, {2}, last(3)), 1);
  EXPECT_EQ(greedy({2, 1, 0}, {0, 2}, {2}, last(-1)), 1);
  EXPECT_EQ(greedy({2, 1, 0}, {0, 2}, {0}, last(0)), 0);
  const auto presence = [](float x) { return [x](auto& p) { p.presence_penalty = x; }; };
  const auto frequency = [](float x) { return [x](auto& p) { p.frequency_penalty = x; }; };
  EXPECT_EQ(greedy({2, 1}, {0}, {}, presence(2)), 0);  // the prompt does not count
  EXPECT_EQ(greedy({2, 1}, {}, {0}, presence(1.1F)), 1);
  EXPECT_EQ(greedy({2, 1}, {}, {0, 0}, presence(0.9F)), 0);
  EXPECT_EQ(greedy({2, 1}, {}, {0}, frequency(0.6F)), 0);
  EXPECT_EQ(greedy({2, 1}, {}, {0, 0}, frequency(0.6F)), 1);
  EXPECT_EQ(greedy({1, 2}, {}, {0, 0}, frequency(-0.6F)), 0);
  // Ids without an embedding row (places of images) are nobody's.
  EXPECT_EQ(greedy({2, 1}, {-1, 700}, {-5}, repeat(9)), 0);
}

TEST(Sample, BiasSuppressionAndMask) {
  const auto greedy = [](auto set) { return with([&](auto& p) { p.temperature = 0, set(p); }); };
  EXPECT_EQ(sample_ok({.logits = kFour}, greedy([](auto& p) { p.logit_bias = {{3, 3.5F}}; })), 3);
  EXPECT_EQ(sample_ok({.logits = kFour}, greedy([](auto& p) {
                        p.logit_bias = {{3, 1.5F}, {3, 2.0F}};
                      })),
            3);
  EXPECT_EQ(sample_ok({.logits = kFour}, greedy([](auto& p) { p.suppressed_tokens = {0, 1}; })), 2);
  EXPECT_EQ(sample_ok({.logits = kFour}, greedy([](auto& p) {
                        p.suppressed_tokens = {0}, p.logit_bias = {{0, 100}};
                      })),
            1);
  const uint64_t mask[] = {0b1100};
  EXPECT_EQ(sample_ok({.logits = kFour, .allowed = mask}, greedy([](auto&) {})), 2);
  SampleScratch scratch;
  const auto none = sample({.logits = kFour, .allowed = mask}, greedy([](auto& p) {
                             p.suppressed_tokens = {2, 3};
                           }),
                           scratch);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kInvalidArgument);
}

TEST(Sample, NotANumberIsAnError) {
  for (size_t size : {3, 16, 17, 100}) {
    for (size_t bad : {size_t{0}, size / 2, size - 1}) {
      for (float value : {kNan, -kNan, kInfinity}) {
        std::vector<float> logits(size, -1);
        logits[bad] = value;
        for (float temperature : {0.0F, 1.0F}) {
          SampleScratch scratch;
          const auto result = sample({.logits = logits},
                                     with([&](auto& p) { p.temperature = temperature; }), scratch);
          ASSERT_FALSE(result.ok());
          EXPECT_EQ(result.error().code, ErrorCode::kCorrupt);
          EXPECT_NE(result.error().message.find("token " + std::to_string(bad) + " "),
                    std::string::npos)
              << result.error().message;
        }
      }
    }
  }
}

TEST(Sample, MinusInfinityNeverComes) {
  std::vector<float> logits(20, -kInfinity);
  logits[7] = -30;
  logits[11] = -30;
  EXPECT_EQ(seen(logits, {}), (std::set<int32_t>{7, 11}));
  EXPECT_EQ(seen(logits, with([](auto& p) { p.top_k = 5; })), (std::set<int32_t>{7, 11}));
  EXPECT_EQ(seen(logits, with([](auto& p) { p.top_p = 0.99F; })), (std::set<int32_t>{7, 11}));
}

// Pearson's statistic for 8 tokens; 24.32 is exceeded once in 1,000 by chance, and the draws are
// fixed.
double chi_square(const SamplingParams& params, auto input_of) {
  constexpr std::array<float, 8> kLogits = {0.3F, -1.0F, 2.0F, 1.1F, 0.0F, -0.4F, 1.9F, 0.7F};
  constexpr int kDraws = 40000;
  std::array<double, 8> expected{};
  double total = 0;
  for (size_t i = 0; i < 8; ++i) {
    expected[i] = std::exp(double{kLogits[i]} / double{params.temperature});
    total += expected[i];
  }
  std::array<int, 8> count{};
  SampleScratch scratch;
  std::vector<int32_t> answer(kDraws, 9);
  for (int i = 0; i < kDraws; ++i) {
    SamplingParams drawn = params;
    SampleInput input{.logits = kLogits};
    input_of(i, drawn, input, answer);
    ++count[static_cast<size_t>(sample(input, drawn, scratch).value())];
  }
  double statistic = 0;
  for (size_t i = 0; i < 8; ++i) {
    const double wanted = kDraws * expected[i] / total;
    statistic += (count[i] - wanted) * (count[i] - wanted) / wanted;
  }
  return statistic;
}

TEST(Sample, DistributionAlongEachIndex) {
  for (float temperature : {0.5F, 1.0F, 2.0F}) {
    const SamplingParams params = with([&](auto& p) { p.temperature = temperature, p.seed = 42; });
    EXPECT_LT(chi_square(params, [](int i, auto& p, auto&, auto&) { p.seed = uint64_t(i); }),
              24.32);
    EXPECT_LT(chi_square(params, [](int i, auto&, auto& in, auto&) { in.choice = uint32_t(i); }),
              24.32);
    EXPECT_LT(
        chi_square(params, [](int i, auto&, auto& in,
                              auto& answer) { in.answer = std::span(answer).first(size_t(i)); }),
        24.32);
  }
}

// The whole chain once more: everything sorted, std::exp, probabilities divided out at each step.
std::vector<double> reference_distribution(const SampleInput& input, const SamplingParams& params) {
  const size_t n = input.logits.size();
  std::vector<float> logits(input.logits.begin(), input.logits.end());
  for (size_t t = 0; t < n; ++t) {
    if (!input.allowed.empty() && (input.allowed[t / 64] >> (t % 64)) % 2 == 0) {
      logits[t] = -kInfinity;
    }
  }
  for (int32_t t : params.suppressed_tokens) logits[size_t(t)] = -kInfinity;
  for (const LogitBias& b : params.logit_bias) logits[size_t(b.token)] += b.bias;
  std::vector<int32_t> all(input.prompt.begin(), input.prompt.end());
  all.insert(all.end(), input.answer.begin(), input.answer.end());
  if (params.penalty_last_n >= 0 && all.size() > size_t(params.penalty_last_n)) {
    all.erase(all.begin(), all.end() - params.penalty_last_n);
  }
  for (int32_t t : std::set<int32_t>(all.begin(), all.end())) {
    float& logit = logits[size_t(t)];
    logit = logit > 0 ? logit / params.repeat_penalty : logit * params.repeat_penalty;
  }
  std::map<int32_t, int> counts;
  for (int32_t t : input.answer) ++counts[t];
  for (auto [t, count] : counts) {
    logits[size_t(t)] -= params.presence_penalty + params.frequency_penalty * float(count);
  }
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  if (params.top_k > 0) order.resize(std::min(n, size_t(params.top_k)));
  const double max = double{logits[order[0]]};
  double total = 0;
  for (size_t t : order) total += std::exp(double{logits[t]} - max);
  std::vector<double> weights(n, 0);
  double before = 0;
  for (size_t t : order) {
    const double p = std::exp(double{logits[t]} - max);
    const bool in_nucleus =
        params.top_p >= 1 || before < double{params.top_p} * total || before == 0;
    if (in_nucleus && p >= double{params.min_p}) {
      weights[t] = std::exp((double{logits[t]} - max) / double{params.temperature});
    }
    before += p;
  }
  return weights;
}

// Differences of F32 logits are rounded to 2^-24 relative, and none that matters exceeds 20; so a
// point this close to a border between two tokens may fall to either side.
constexpr double kBorder = 2e-6;

void expect_chosen_by(const std::vector<double>& weights, double uniform, int32_t token) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  const double below = std::accumulate(weights.begin(), weights.begin() + token, 0.0) / total;
  const double width = weights[size_t(token)] / total;
  EXPECT_GT(width, 0);
  EXPECT_GE(uniform, below - kBorder);
  EXPECT_LE(uniform, below + width + kBorder);
}

TEST(Sample, MatchesTheReferenceChain) {
  std::mt19937 random(1);
  const auto integer = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<uint32_t>(high - low + 1));
  };
  const auto real = [&](float low, float high) {
    return low + (high - low) * float(random()) * 0x1p-32F;
  };
  const auto maybe = [&] { return random() % 2 == 0; };
  for (int round = 0; round < 3000; ++round) {
    const int n = integer(1, 600);
    std::vector<float> logits(static_cast<size_t>(n));
    for (float& logit : logits) logit = real(-8, 8);
    if (maybe()) {  // many ties
      for (float& logit : logits) logit = std::round(logit);
    }
    const auto tokens = [&](int most) {
      std::vector<int32_t> list(static_cast<size_t>(integer(0, most)));
      for (int32_t& t : list) t = integer(0, n - 1);
      return list;
    };
    const std::vector<int32_t> prompt = tokens(100);
    const std::vector<int32_t> answer = tokens(100);
    std::vector<uint64_t> mask(maybe() ? size_t(n + 63) / 64 : 0);
    for (uint64_t& word : mask) word = uint64_t{random()} << 32 | random() | 1;
    SamplingParams params;
    params.temperature = real(0.1F, 3);
    if (maybe()) params.top_k = integer(1, 80);
    if (maybe()) params.top_p = real(0, 1);
    if (maybe()) params.min_p = real(0, 0.3F);
    if (maybe()) params.repeat_penalty = real(0.5F, 2);
    if (maybe()) params.penalty_last_n = integer(-1, 120);
    if (maybe()) params.presence_penalty = real(-2, 2);
    if (maybe()) params.frequency_penalty = real(-2, 2);
    for (int32_t t : tokens(3)) params.logit_bias.push_back({t, real(-9, 9)});
    for (int32_t t : tokens(3)) {
      if (t != 0) params.suppressed_tokens.push_back(t);
    }
    params.seed = random();
    const SampleInput input{logits, prompt, answer, mask, static_cast<uint32_t>(random())};
    const int32_t token = sample_ok(input, params);
    expect_chosen_by(reference_distribution(input, params),
                     uniform_at(params.seed, input.choice, answer.size()), token);
  }
}

// A vocabulary of the real size, flat enough that the nucleus holds thousands of tokens.
TEST(Sample, WideNucleusMatchesTheReference) {
  std::mt19937 random(5);
  std::vector<float> logits(262144);
  for (float& logit : logits) logit = 3 * float(random()) * 0x1p-32F;
  for (float top_p : {0.001F, 0.02F, 0.3F, 0.97F}) {
    const SamplingParams params = with([&](auto& p) { p.top_p = top_p, p.seed = 9; });
    expect_chosen_by(reference_distribution({.logits = logits}, params), uniform_at(9, 0, 0),
                     sample_ok({.logits = logits}, params));
  }
}

TEST(Sample, OneCandidateEqualsGreedy) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> logits(1 + random() % 5000);
    for (float& logit : logits) logit = static_cast<float>(random() % 64) - 32;
    const int32_t greedy = sample_ok({.logits = logits}, with([](auto& p) { p.temperature = 0; }));
    EXPECT_EQ(greedy, std::max_element(logits.begin(), logits.end()) - logits.begin());
    const SamplingParams one = with([&](auto& p) { p.top_k = 1, p.seed = random(); });
    EXPECT_EQ(sample_ok({.logits = logits}, one), greedy);
  }
}

TEST(Sample, FiltersThatKeepAllChangeNothing) {
  std::mt19937 random(3);
  std::vector<float> logits(1000);
  for (float& logit : logits) logit = static_cast<float>(random() % 1000) * 0.01F;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const int32_t plain = sample_ok({.logits = logits}, with([&](auto& p) { p.seed = seed; }));
    EXPECT_EQ(sample_ok({.logits = logits}, with([&](auto& p) { p.seed = seed, p.top_k = 1000; })),
              plain);
    EXPECT_EQ(
        sample_ok({.logits = logits}, with([&](auto& p) { p.seed = seed, p.min_p = 1e-30F; })),
        plain);
  }
}

TEST(Sample, ScratchCarriesNothingOver) {
  SampleScratch scratch;
  const std::vector<int32_t> answer = {0, 0, 1};
  const SamplingParams heavy = with([](auto& p) {
    p.repeat_penalty = 2, p.frequency_penalty = 2, p.suppressed_tokens = {2}, p.temperature = 0;
  });
  for (int repeat = 0; repeat < 3; ++repeat) {
    EXPECT_EQ(sample({.logits = kFour, .answer = answer}, heavy, scratch).value(), 3);
    EXPECT_EQ(sample({.logits = kFour}, with([](auto& p) { p.temperature = 0; }), scratch).value(),
              0);
  }
}

}  // namespace
}  // namespace hf2q
