#include "ops/turboquant.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>

namespace hf2q {
namespace {

constexpr KvFormat kFormats[] = {KvFormat::kTq8,     KvFormat::kTq6,    KvFormat::kTq5,
                                 KvFormat::kTq4,     KvFormat::kTq3,    KvFormat::kTq2,
                                 KvFormat::kTq3Half, KvFormat::kTq2Half};

struct Encoded {
  std::vector<std::byte> codes;
  std::vector<float> norms;
};

Encoded encode(KvFormat format, const std::vector<float>& row) {
  const KvFormatInfo& info = kv_format_info(format);
  Encoded out{std::vector<std::byte>(info.row_bytes(row.size())),
              std::vector<float>(info.norm_bytes(row.size()) / sizeof(float))};
  EXPECT_TRUE(TurboQuant::of(format).encode(row.data(), row.size(), out.codes.data(),
                                            reinterpret_cast<std::byte*>(out.norms.data())));
  return out;
}

std::vector<float> decode(KvFormat format, const Encoded& encoded, size_t d) {
  std::vector<float> row(d);
  TurboQuant::of(format).decode_rotated(encoded.codes.data(),
                                        reinterpret_cast<const std::byte*>(encoded.norms.data()), d,
                                        row.data());
  turboquant_unrotate(row.data(), d);
  return row;
}

double squared_error(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return sum;
}

double squares(const std::vector<float>& a) {
  return squared_error(a, std::vector<float>(a.size()));
}

// The levels' indices: the bit stream taken apart, pairs split.
std::vector<uint32_t> indices(KvFormat format, const Encoded& encoded, size_t d) {
  const TurboQuant& codec = TurboQuant::of(format);
  const uint32_t bits = codec.code_bits();
  std::vector<uint32_t> result;
  for (size_t c = 0; c < d / codec.values_per_code(); ++c) {
    uint32_t code = 0;
    for (size_t b = 0; b < bits; ++b) {
      const size_t at = c * bits + b;
      code |= (static_cast<uint32_t>(encoded.codes[at / 8]) >> (at % 8) & 1) << b;
    }
    const uint32_t second = format == KvFormat::kTq3Half ? 11 : 6;
    if (codec.values_per_code() == 2) {
      result.push_back(code / second);
      result.push_back(code % second);
    } else {
      result.push_back(code);
    }
  }
  return result;
}

// CRC-32 (IEEE).
uint32_t crc32(const std::vector<std::byte>& bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (const std::byte byte : bytes) {
    crc ^= static_cast<uint32_t>(byte);
    for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320U : 0);
  }
  return ~crc;
}

// Integers, so that the butterflies are exact.
std::vector<float> vector_x(size_t d) {
  std::vector<float> x;
  for (size_t j = 0; j < d; ++j) {
    x.push_back(static_cast<float>((31 * j + 25 * j * j) % 127) - 63.0F);
  }
  return x;
}

struct KnownAnswer {
  KvFormat format;
  size_t d;
  std::vector<uint32_t> first;
  uint32_t sum;
  uint32_t crc;
  double error;  // relative
};

// From an independent implementation in F64.
const KnownAnswer kKnown[] = {
    {KvFormat::kTq4, 256, {9, 7, 10, 10, 3, 10, 7, 13}, 2012, 0xb6e92408, 0.00968010},
    {KvFormat::kTq8, 256, {157, 112, 173, 159, 52, 170, 119, 217}, 34084, 0x87cd4c14, 0.00004231},
    {KvFormat::kTq4, 512, {12, 10, 8, 10, 5, 12, 7, 8}, 3949, 0xe8d86977, 0.01093652},
    {KvFormat::kTq8, 512, {195, 161, 140, 165, 93, 194, 113, 140}, 67155, 0xd3ff431a, 0.00004385},
    {KvFormat::kTq2, 256, {2, 1, 2, 2, 0, 2, 1, 3}, 403, 0x74ecc755, 0.1166136},
    {KvFormat::kTq3, 256, {5, 3, 5, 5, 1, 5, 3, 7}, 942, 0x70fcbffb, 0.0343413},
    {KvFormat::kTq2Half, 256, {3, 2, 3, 3, 0, 4, 2, 5}, 602, 0x28404ebe, 0.0656458},
    {KvFormat::kTq3Half, 256, {6, 4, 7, 6, 2, 7, 5, 9}, 1345, 0x29e67bda, 0.0203669},
    {KvFormat::kTq5, 256, {19, 14, 21, 20, 6, 21, 14, 27}, 4152, 0x25c0537b, 0.0024677},
    {KvFormat::kTq6, 256, {39, 28, 43, 40, 12, 42, 29, 54}, 8421, 0x5d9d11e5, 0.00060471},
    {KvFormat::kTq5, 512, {24, 20, 17, 20, 11, 24, 14, 17}, 8172, 0xc24d2bf4, 0.0025397},
    {KvFormat::kTq6, 512, {48, 40, 35, 41, 23, 48, 28, 35}, 16590, 0x5f99ff89, 0.00064194},
    {KvFormat::kTq2, 512, {3, 2, 2, 2, 1, 3, 1, 2}, 802, 0x9730351c, 0.1173985},
    {KvFormat::kTq3, 512, {6, 5, 4, 5, 2, 6, 3, 4}, 1851, 0x30b1d678, 0.0347079},
    {KvFormat::kTq2Half, 512, {3, 3, 2, 3, 1, 4, 2, 3}, 1195, 0xb0d57468, 0.0689331},
    {KvFormat::kTq3Half, 512, {8, 7, 6, 7, 3, 8, 4, 6}, 2632, 0xfb610601, 0.0206225},
};

class Known : public testing::TestWithParam<KnownAnswer> {};

TEST_P(Known, CodesBytesAndErrorAreTheExpectedOnes) {
  const KnownAnswer& known = GetParam();
  const std::vector<float> x = vector_x(known.d);
  const Encoded encoded = encode(known.format, x);
  const std::vector<uint32_t> found = indices(known.format, encoded, known.d);
  EXPECT_EQ(std::vector<uint32_t>(found.begin(), found.begin() + 8), known.first);
  EXPECT_EQ(std::accumulate(found.begin(), found.end(), 0U), known.sum);
  EXPECT_EQ(crc32(encoded.codes), known.crc);
  const double error = squared_error(decode(known.format, encoded, known.d), x) / squares(x);
  EXPECT_NEAR(error / known.error, 1, 2e-3);  // digits of the expected value
}

std::string test_name(KvFormat format, size_t d) {
  std::string name = std::string(kv_format_info(format).name) + "_" + std::to_string(d);
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, Known, testing::ValuesIn(kKnown), [](const auto& info) {
  return test_name(info.param.format, info.param.d);
});

TEST(TurboQuant, RotationAndNormsOfVectorX) {
  std::vector<float> y = vector_x(256);
  turboquant_rotate(y.data(), 256);
  EXPECT_EQ(std::vector<float>(y.begin(), y.begin() + 8),
            (std::vector<float>{18, -9.125F, 28.375F, 19.5F, -51, 26.625F, -5.375F, 63.5F}));
  EXPECT_NEAR(encode(KvFormat::kTq4, vector_x(256)).norms[0], 35.717971, 4e-6);
  const Encoded wide = encode(KvFormat::kTq4, vector_x(512));
  EXPECT_NEAR(wide.norms[0], 36.563542, 4e-6);
  EXPECT_NEAR(wide.norms[1], 34.670238, 4e-6);
  y = vector_x(512);
  turboquant_rotate(y.data(), 512);
  EXPECT_NEAR(y[0], 45.033863, 5e-6);
  EXPECT_NEAR(y[259], 4.021670, 5e-6);
  turboquant_unrotate(y.data(), 512);
  for (size_t j = 0; j < 512; ++j) EXPECT_NEAR(y[j], vector_x(512)[j], 1e-4);
}

TEST(TurboQuant, DotProductsAreThoseOfTheRotatedRow) {
  const Encoded encoded = encode(KvFormat::kTq4, vector_x(256));
  std::vector<float> q;
  for (int j = 0; j < 256; ++j) q.push_back(static_cast<float>(std::sin(0.1 * j + 0.3)));
  const std::vector<float> row = decode(KvFormat::kTq4, encoded, 256);
  EXPECT_NEAR(row[0], -60.8254, 1e-4);
  EXPECT_NEAR(row[3], 6.6468, 1e-4);
  std::vector<float> rotated(256);
  TurboQuant::of(KvFormat::kTq4)
      .decode_rotated(encoded.codes.data(),
                      reinterpret_cast<const std::byte*>(encoded.norms.data()), 256,
                      rotated.data());
  const auto dot = [](const std::vector<float>& a, const std::vector<float>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  };
  EXPECT_NEAR(dot(q, row), -1443.862123, 2e-3);
  turboquant_rotate(q.data(), 256);
  EXPECT_NEAR(dot(q, rotated), -1443.862123, 2e-3);
}

// Every value of the rotated row is -1/16: the error is that of the scaled value 1.
TEST(TurboQuant, OneHotRowHasTheErrorOfOne) {
  const std::pair<KvFormat, double> expected[] = {
      {KvFormat::kTq2, 0.26053},     {KvFormat::kTq2Half, 0.02771}, {KvFormat::kTq3, 0.05953},
      {KvFormat::kTq3Half, 0.03198}, {KvFormat::kTq4, 0.00332},     {KvFormat::kTq5, 0.00238},
      {KvFormat::kTq6, 0.00066},     {KvFormat::kTq8, 7.5e-5}};
  std::vector<float> row(256);
  row[0] = 1;
  for (const auto& [format, error] : expected) {
    const Encoded encoded = encode(format, row);
    EXPECT_EQ(encoded.norms[0], 0.0625F);
    const double digit = format == KvFormat::kTq8 ? 5e-7 : 5e-6;
    EXPECT_NEAR(squared_error(decode(format, encoded, 256), row), error, digit);
  }
  EXPECT_EQ(encode(KvFormat::kTq4, row).codes, std::vector<std::byte>(128, std::byte{0x44}));
  EXPECT_EQ(encode(KvFormat::kTq8, row).codes, std::vector<std::byte>(256, std::byte{71}));
  EXPECT_NEAR(decode(KvFormat::kTq4, encode(KvFormat::kTq4, row), 256)[0], 0.9423405, 1e-6);
}

TEST(TurboQuant, ZerosTieToTheLowerCode) {
  const Encoded ones = encode(KvFormat::kTq4, std::vector<float>(256, 1.0F));
  EXPECT_EQ(ones.norms[0], 1.0F);
  EXPECT_NEAR(squared_error(decode(KvFormat::kTq4, ones, 256), std::vector<float>(256, 1.0F)) / 256,
              0.011792, 1e-6);
  const std::vector<uint32_t> wide =
      indices(KvFormat::kTq8, encode(KvFormat::kTq8, std::vector<float>(256, 1.0F)), 256);
  EXPECT_EQ(wide[3], 127U);  // y = 0 there
  EXPECT_EQ(wide[7], 127U);
  for (const KvFormat format : kFormats) {
    for (const float tiny : {0.0F, 1e-40F, -1e-12F}) {
      const Encoded zero = encode(format, std::vector<float>(64, tiny));
      EXPECT_EQ(zero.norms[0], 0.0F);
      for (const float x : decode(format, zero, 64)) EXPECT_EQ(x, 0.0F);
    }
  }
  EXPECT_EQ(encode(KvFormat::kTq4, std::vector<float>(256)).codes[9], std::byte{0x77});
  EXPECT_EQ(encode(KvFormat::kTq8, std::vector<float>(256)).codes[9], std::byte{0x7F});
}

TEST(TurboQuant, HugeRowsStayFiniteAndKeepTheirError) {
  constexpr float kMost = std::numeric_limits<float>::max();
  for (const KvFormat format : kFormats) {
    for (const size_t d : {64, 128, 256, 512}) {
      for (const float size : {1e15F, 1e25F, kMost}) {
        std::vector<float> row(d);
        for (size_t j = 0; j < d; ++j) row[j] = j % 3 == 0 ? -size : size / 7;
        const std::vector<float> back = decode(format, encode(format, row), d);
        for (const float x : back) ASSERT_TRUE(std::isfinite(x)) << size;
      }
      std::vector<float> hot(d);
      hot[d / 3] = kMost;
      const std::vector<float> back = decode(format, encode(format, hot), d);
      for (const float x : back) ASSERT_TRUE(std::isfinite(x));
      EXPECT_GT(back[d / 3], kMost / 4);
    }
  }
  std::vector<float> row = vector_x(256);
  const double error = squared_error(decode(KvFormat::kTq4, encode(KvFormat::kTq4, row), 256), row);
  for (float& x : row) x *= 0x1p90F;
  const std::vector<float> back = decode(KvFormat::kTq4, encode(KvFormat::kTq4, row), 256);
  EXPECT_NEAR(squared_error(back, row) * 0x1p-180 / error, 1, 1e-6);
}

TEST(TurboQuant, WhatIsNotFiniteIsReported) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    std::vector<float> row(128, 1.0F);
    row[127] = bad;
    std::byte codes[128];
    std::byte norms[4];
    EXPECT_FALSE(TurboQuant::of(KvFormat::kTq8).encode(row.data(), 128, codes, norms));
  }
}

struct Optimum {
  KvFormat format;
  double error;
};

constexpr Optimum kOptima[] = {{KvFormat::kTq2, 0.1174818},   {KvFormat::kTq2Half, 0.0689594},
                               {KvFormat::kTq3, 0.0345478},   {KvFormat::kTq3Half, 0.0192195},
                               {KvFormat::kTq4, 0.0095010},   {KvFormat::kTq5, 0.00250467},
                               {KvFormat::kTq6, 0.000644240}, {KvFormat::kTq8, 0.0000411851}};

template <class Draw>
double relative_error(KvFormat format, size_t d, size_t n_rows, const Draw& draw) {
  double error = 0;
  double all = 0;
  std::vector<float> row(d);
  for (size_t r = 0; r < n_rows; ++r) {
    for (float& x : row) x = draw();
    error += squared_error(decode(format, encode(format, row), d), row);
    all += squares(row);
  }
  return error / all;
}

class Distortion : public testing::TestWithParam<std::tuple<Optimum, size_t>> {};

TEST_P(Distortion, IsNearTheOptimum) {
  const auto& [optimum, d] = GetParam();
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  const double gauss = relative_error(optimum.format, d, 20000, [&] { return normal(random); });
  EXPECT_LT(gauss, 1.02 * optimum.error);
  std::student_t_distribution<float> student(3);
  const double tails = relative_error(optimum.format, d, 4000, [&] { return student(random); });
  EXPECT_LT(tails, 1.05 * optimum.error);
  std::exponential_distribution<float> half;
  const double laplace = relative_error(
      optimum.format, d, 4000, [&] { return half(random) * ((random() & 1) != 0 ? 1.0F : -1.0F); });
  EXPECT_LT(laplace, 1.05 * optimum.error);
}

INSTANTIATE_TEST_SUITE_P(All, Distortion,
                         testing::Combine(testing::ValuesIn(kOptima),
                                          testing::Values(64, 128, 256, 512)),
                         [](const auto& info) {
                           return test_name(std::get<0>(info.param).format,
                                            std::get<1>(info.param));
                         });

}  // namespace
}  // namespace hf2q
