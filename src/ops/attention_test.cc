#include "ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "ops/attention_table.h"
#include "ops/kv_rows.h"

namespace hf2q {
namespace {

constexpr double kEps = std::numeric_limits<float>::epsilon();

struct Shape {
  uint32_t n_heads;
  uint32_t n_kv_heads;
  uint32_t head_dim;
};

// Sequences of random rows in pages of their own; bytes that were never written are NaN patterns.
class Cache {
 public:
  Cache(Shape shape, uint32_t page_positions, KvFormat k, KvFormat v, uint32_t n_positions,
        uint32_t n_layers = 2)
      : n_positions_(n_positions) {
    layout_ = {n_layers, shape.n_kv_heads, shape.head_dim, page_positions, k, v};
    const size_t n_pages = (n_positions + page_positions - 1) / page_positions;
    memory_.assign(n_pages * layout_.page_bytes(), std::byte{0xFF});
    for (size_t i = 0; i < n_pages; ++i)
      pages_.push_back(memory_.data() + i * layout_.page_bytes());
  }

  void fill(Exec& exec, uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    const size_t n = size_t{n_positions_} * layout_.n_kv_heads * layout_.head_dim;
    std::vector<float> k(n);
    std::vector<float> v(n);
    for (float& x : k) x = normal(random);
    for (float& x : v) x = normal(random);
    std::vector<KvRow> rows;
    for (uint32_t p = 0; p < n_positions_; ++p) rows.push_back({pages_.data(), p, 0, 0});
    EXPECT_FALSE(store_kv(exec, layout_, 1, rows, k.data(), v.data()));
    kept_k_.resize(n);
    kept_v_.resize(n);
    for (size_t i = 0; i < n / layout_.head_dim; ++i) {
      const auto position = static_cast<uint32_t>(i / layout_.n_kv_heads);
      const auto head = static_cast<uint32_t>(i % layout_.n_kv_heads);
      load_k(layout_, 1, head, rows[position], position, kept_k_.data() + i * layout_.head_dim);
      load_v(layout_, 1, head, rows[position], position, kept_v_.data() + i * layout_.head_dim);
    }
  }

  KvRow row(uint32_t begin, uint32_t end) const {
    return {pages_.data(), end > 0 ? end - 1 : 0, begin, end};
  }
  const PageLayout& layout() const { return layout_; }
  // What was stored, as the format keeps it (turboquant_test.cc and the tests of StoreKv say how).
  double k(uint32_t position, uint32_t head, uint32_t d) const {
    return kept_k_[(size_t{position} * layout_.n_kv_heads + head) * layout_.head_dim + d];
  }
  double v(uint32_t position, uint32_t head, uint32_t d) const {
    return kept_v_[(size_t{position} * layout_.n_kv_heads + head) * layout_.head_dim + d];
  }

 private:
  PageLayout layout_;
  uint32_t n_positions_;
  std::vector<std::byte> memory_;
  std::vector<std::byte*> pages_;
  std::vector<float> kept_k_;
  std::vector<float> kept_v_;
};

std::vector<float> random_queries(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.1F);
  std::vector<float> q(n);
  for (float& x : q) x = normal(random);
  return q;
}

std::vector<float> run(Exec& exec, const Cache& cache, uint32_t n_heads,
                       const std::vector<KvRow>& rows, const std::vector<float>& q) {
  std::vector<float> out(q.size(), std::numeric_limits<float>::quiet_NaN());
  AttentionScratch scratch(exec.n_threads(), n_heads, cache.layout().head_dim, 4096);
  attend(exec, {cache.layout(), 1, n_heads}, rows, q.data(), scratch, out.data());
  return out;
}

// The definition, in F64: one head of one row.
std::vector<double> expected(const Cache& cache, uint32_t n_heads, const KvRow& row, const float* q,
                             uint32_t head) {
  const uint32_t kv_head = head / (n_heads / cache.layout().n_kv_heads);
  const uint32_t head_dim = cache.layout().head_dim;
  std::vector<double> p;
  for (uint32_t j = row.begin; j < row.end; ++j) {
    double score = 0;
    for (uint32_t i = 0; i < head_dim; ++i) score += q[i] * cache.k(j, kv_head, i);
    p.push_back(std::exp(score));  // scores are small: no maximum needed in F64
  }
  std::vector<double> out(head_dim);
  double sum = 0;
  for (const double weight : p) sum += weight;
  for (uint32_t j = row.begin; j < row.end; ++j) {
    for (uint32_t d = 0; d < head_dim; ++d)
      out[d] += p[j - row.begin] / sum * cache.v(j, kv_head, d);
  }
  return out;
}

struct Case {
  const char* name;
  Shape shape;
  KvFormat k;
  KvFormat v;
};

const Case kCases[] = {
    {"f32_heads_4_2_dim_256", {4, 2, 256}, KvFormat::kF32, KvFormat::kF32},
    {"f16_heads_4_1_dim_512", {4, 1, 512}, KvFormat::kF16, KvFormat::kF16},
    {"bf16_heads_8_2_dim_64", {8, 2, 64}, KvFormat::kBF16, KvFormat::kBF16},
    {"f16_f32_heads_6_1_dim_128", {6, 1, 128}, KvFormat::kF16, KvFormat::kF32},
    {"f32_bf16_heads_3_3_dim_16", {3, 3, 16}, KvFormat::kF32, KvFormat::kBF16},
    {"f16_heads_24_1_dim_80", {24, 1, 80}, KvFormat::kF16, KvFormat::kF16},
    {"q8_heads_4_2_dim_64", {4, 2, 64}, KvFormat::kQ8_0, KvFormat::kQ8_0},
    {"f16_tq8_heads_4_1_dim_256", {4, 1, 256}, KvFormat::kF16, KvFormat::kTq8},
    {"tq8_tq4_heads_4_1_dim_512", {4, 1, 512}, KvFormat::kTq8, KvFormat::kTq4},
    {"tq6_tq5_heads_4_2_dim_256", {4, 2, 256}, KvFormat::kTq6, KvFormat::kTq5},
    {"tq4_heads_8_2_dim_128", {8, 2, 128}, KvFormat::kTq4, KvFormat::kTq4},
    {"tq3_tq2_heads_3_1_dim_64", {3, 1, 64}, KvFormat::kTq3, KvFormat::kTq2},
    {"tq3_5_tq2_5_heads_4_1_dim_512", {4, 1, 512}, KvFormat::kTq3Half, KvFormat::kTq2Half},
    {"tq2_5_tq3_heads_2_2_dim_16", {2, 2, 16}, KvFormat::kTq2Half, KvFormat::kTq3},
};

// Windows that begin and end inside, at and across the splits; single rows, runs of a prompt, and a
// row that sees nothing.
std::vector<KvRow> rows_of(const Cache& cache) {
  std::vector<KvRow> rows;
  for (uint32_t end = 1; end <= 40; ++end) rows.push_back(cache.row(end > 8 ? end - 8 : 0, end));
  for (const uint32_t end : {511U, 512U, 513U, 1024U, 1300U}) rows.push_back(cache.row(0, end));
  for (uint32_t end = 700; end < 720; ++end) rows.push_back(cache.row(end - 600, end));
  rows.push_back(cache.row(77, 77));
  rows.push_back(cache.row(1023, 1025));
  return rows;
}

class Attention : public testing::TestWithParam<std::tuple<Isa, Case>> {};

TEST_P(Attention, MatchesF64) {
  const Case& c = std::get<1>(GetParam());
  Exec exec(2, std::get<0>(GetParam()));
  Cache cache(c.shape, 32, c.k, c.v, 1300);
  cache.fill(exec, 1);
  const std::vector<KvRow> rows = rows_of(cache);
  const size_t row_size = size_t{c.shape.n_heads} * c.shape.head_dim;
  const std::vector<float> q = random_queries(rows.size() * row_size, 2);
  const std::vector<float> out = run(exec, cache, c.shape.n_heads, rows, q);
  // Scores of up to 3 with dim / 16 roundings each, weights and values of order 1.
  const double bound = kEps * (c.shape.head_dim / 4.0 + 64);
  for (size_t r = 0; r < rows.size(); r += 7) {
    for (uint32_t h = 0; h < c.shape.n_heads; h += 3) {
      const size_t at = r * row_size + size_t{h} * c.shape.head_dim;
      const std::vector<double> head = expected(cache, c.shape.n_heads, rows[r], q.data() + at, h);
      for (uint32_t d = 0; d < c.shape.head_dim; ++d) ASSERT_NEAR(out[at + d], head[d], bound) << r;
    }
  }
}

std::string case_name(const testing::TestParamInfo<std::tuple<Isa, Case>>& info) {
  return std::string(name_of(std::get<0>(info.param))) + "_" + std::get<1>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(All, Attention,
                         testing::Combine(testing::ValuesIn(usable_isas().begin(),
                                                            usable_isas().end()),
                                          testing::ValuesIn(kCases)),
                         case_name);

class AttentionBits : public testing::TestWithParam<Case> {};

// Alone or among others, any page size, thread count or instruction set: the same bits.
TEST_P(AttentionBits, DependOnTheRowAlone) {
  const Case& c = GetParam();
  const size_t row_size = size_t{c.shape.n_heads} * c.shape.head_dim;
  std::vector<float> first;
  for (const Isa isa : usable_isas()) {
    for (const uint32_t page_positions : {1U, 4U, 32U}) {
      for (const size_t n_threads : {1, 3}) {
        Exec exec(n_threads, isa);
        Cache cache(c.shape, page_positions, c.k, c.v, 1300);
        cache.fill(exec, 3);
        const std::vector<KvRow> rows = rows_of(cache);
        const std::vector<float> q = random_queries(rows.size() * row_size, 4);
        const std::vector<float> together = run(exec, cache, c.shape.n_heads, rows, q);
        if (first.empty()) first = together;
        ASSERT_EQ(0, std::memcmp(first.data(), together.data(), first.size() * sizeof(float)));
        for (size_t r = 0; r < rows.size(); r += 17) {
          const std::vector<float> one(q.begin() + static_cast<ptrdiff_t>(r * row_size),
                                       q.begin() + static_cast<ptrdiff_t>((r + 1) * row_size));
          const std::vector<float> alone = run(exec, cache, c.shape.n_heads, {rows[r]}, one);
          ASSERT_EQ(
              0, std::memcmp(first.data() + r * row_size, alone.data(), row_size * sizeof(float)))
              << r;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, AttentionBits, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Attention, NothingVisibleGivesZerosAndOneRowGivesItsValue) {
  Exec exec(1);
  Cache cache({2, 2, 64}, 4, KvFormat::kF32, KvFormat::kF32, 20);
  cache.fill(exec, 5);
  const std::vector<float> q = random_queries(2 * 128, 6);
  const std::vector<float> out = run(exec, cache, 2, {cache.row(7, 7), cache.row(9, 10)}, q);
  for (uint32_t i = 0; i < 128; ++i) {
    EXPECT_EQ(out[i], 0.0F);
    EXPECT_EQ(out[128 + i], static_cast<float>(cache.v(9, i / 64, i % 64)));
  }
}

TEST(StoreKv, TouchesItsRowAndNothingElse) {
  Exec exec(1);
  const PageLayout layout = {2, 2, 64, 4, KvFormat::kF16, KvFormat::kF32};
  std::vector<std::byte> page(layout.page_bytes(), std::byte{0x5A});
  std::byte* pages[] = {page.data()};
  const std::vector<float> k(128, 1.0F);
  const std::vector<float> v(128, 2.0F);
  const KvRow row = {pages, 2, 0, 3};
  ASSERT_FALSE(store_kv(exec, layout, 1, {&row, 1}, k.data(), v.data()));
  size_t touched = 0;
  for (const std::byte b : page) touched += b == std::byte{0x5A} ? 0 : 1;
  EXPECT_EQ(touched, 2U * 64 * (2 + 4));
  std::vector<float> back(64);
  load_k(layout, 1, 1, row, 2, back.data());
  EXPECT_EQ(back, std::vector<float>(64, 1.0F));
  load_v(layout, 1, 0, row, 2, back.data());
  EXPECT_EQ(back, std::vector<float>(64, 2.0F));
}

// q8_0: 32 values share max / 127 as F16.
TEST(StoreKv, Q8KeepsHalfAStepOfEachBlock) {
  Exec exec(1);
  const PageLayout layout = {1, 1, 64, 4, KvFormat::kQ8_0, KvFormat::kQ8_0};
  std::vector<std::byte> page(layout.page_bytes());
  std::byte* pages[] = {page.data()};
  std::vector<float> k(64);
  for (size_t i = 0; i < 64; ++i) k[i] = static_cast<float>(i) * (i % 2 == 0 ? 0.25F : -0.25F);
  const std::vector<float> v(64, 1e30F);
  const KvRow row = {pages, 1, 0, 2};
  ASSERT_FALSE(store_kv(exec, layout, 0, {&row, 1}, k.data(), v.data()));
  std::vector<float> back(64);
  load_k(layout, 0, 0, row, 1, back.data());
  for (size_t i = 0; i < 64; ++i) {
    const double step = (i < 32 ? 31 : 63) * 0.25 / 127;
    EXPECT_NEAR(back[i], k[i], step / 2 + 127 * step * 0x1p-11);  // the scale rounds to F16
  }
  load_v(layout, 0, 0, row, 1, back.data());
  EXPECT_EQ(back[5], 127 * 65504.0F);
  EXPECT_EQ(layout.k_row_bytes() + layout.k_norm_bytes(), 64U + 4U);
}

TEST(StoreKv, SaturatesWhatIsLargeAndReportsWhatIsNotFinite) {
  Exec exec(2);
  const PageLayout layout = {1, 1, 16, 4, KvFormat::kF16, KvFormat::kBF16};
  std::vector<std::byte> page(layout.page_bytes());
  std::byte* pages[] = {page.data()};
  std::vector<KvRow> rows;
  for (uint32_t p = 0; p < 4; ++p) rows.push_back({pages, p, 0, p + 1});
  std::vector<float> k(64, 1e30F);
  std::vector<float> v(64, -3.4e38F);
  ASSERT_FALSE(store_kv(exec, layout, 0, rows, k.data(), v.data()));
  std::vector<float> back(16);
  load_k(layout, 0, 0, rows[0], 3, back.data());
  EXPECT_EQ(back[0], 65504.0F);
  load_v(layout, 0, 0, rows[0], 3, back.data());
  EXPECT_TRUE(std::isfinite(back[0]));
  v[3 * 16 + 7] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(store_kv(exec, layout, 0, rows, k.data(), v.data()), 3U);
  k[1 * 16] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(store_kv(exec, layout, 0, rows, k.data(), v.data()), 1U);
}

}  // namespace
}  // namespace hf2q
