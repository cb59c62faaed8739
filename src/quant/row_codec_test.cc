#include "quant/row_codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/half.h"
#include "quant/rows.h"

namespace hf2q {
namespace {

using Bytes = std::vector<uint8_t>;

std::vector<TensorType> all_types() {
  std::vector<TensorType> types;
  for (const RowCodec& codec : row_codecs()) types.push_back(codec.type);
  return types;
}

std::byte* bytes_of(Bytes& bytes) {
  return reinterpret_cast<std::byte*>(bytes.data());
}
const std::byte* bytes_of(const Bytes& bytes) {
  return reinterpret_cast<const std::byte*>(bytes.data());
}

// The rows of `values` one after the other; nothing where the codec refuses one.
Bytes encode_rows(const QuantKernels& kernels, TensorType type, const std::vector<float>& values,
                  size_t columns, const float* importance) {
  Bytes out;
  Bytes row(row_bytes(type, columns));
  for (size_t i = 0; i < values.size(); i += columns) {
    if (!row_functions(type).encode(kernels, values.data() + i, columns, importance,
                                    bytes_of(row))) {
      return {};
    }
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

std::vector<float> decode_rows(TensorType type, const Bytes& bytes, size_t n) {
  std::vector<float> values(n);
  row_codec(type).decode(bytes_of(bytes), n, values.data());
  return values;
}

// ---- the set of codecs ----

TEST(RowCodec, EverySupportedTypeHasOne) {
  size_t supported = 0;
  for (const TensorTypeInfo& info : tensor_types()) {
    if (!info.supported) continue;
    ++supported;
    EXPECT_EQ(row_codec(static_cast<TensorType>(info.id)).type, static_cast<TensorType>(info.id));
  }
  EXPECT_EQ(row_codecs().size(), supported);
}

// ---- known answers, for every set of kernels that this machine can run ----

using KernelsAndType = std::tuple<const QuantKernels*, TensorType>;

std::string test_name(const testing::TestParamInfo<KernelsAndType>& info) {
  return std::string(std::get<0>(info.param)->name) + "_" +
         std::string(name_of(std::get<1>(info.param)));
}

class KnownAnswers : public testing::TestWithParam<KernelsAndType> {};

Bytes from_hex(const std::string& hex) {
  Bytes bytes(hex.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<uint8_t>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  return bytes;
}

std::vector<float> floats_from_hex(const std::string& hex) {
  const Bytes bytes = from_hex(hex);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

const nlohmann::json& vectors() {
  static const auto parsed =
      nlohmann::json::parse(std::ifstream(HF2Q_TEST_DATA "/quant_vectors.json"));
  return parsed;
}

// quant_vectors.json: rows and the bytes that a quantizer of llama.cpp made of them. That build
// fuses some multiplications with additions, which moves searches near a tie; so a few blocks may
// differ where the search is long, with as good a fit. (The hashes below are of a build that rounds
// every operation; they are met exactly.)
size_t blocks_that_may_differ(TensorType type, bool weighted) {
  switch (type) {
    case TensorType::kQ5_0:
      return weighted ? 2 : 0;  // of 96
    case TensorType::kQ5_1:
      return weighted ? 1 : 0;  // of 96
    case TensorType::kIQ4_NL:
      return weighted ? 1 : 0;  // of 96
    case TensorType::kQ2_K:
      return weighted ? 2 : 6;  // of 12
    case TensorType::kQ4_K:
      return weighted ? 0 : 1;  // of 12
    case TensorType::kQ5_K:
      return weighted ? 0 : 4;  // of 12
    default:
      return 0;
  }
}

size_t differing_blocks(TensorType type, const Bytes& a, const Bytes& b) {
  const size_t size = tensor_type_info(type).block_bytes;
  size_t differing = 0;
  for (size_t i = 0; i < b.size(); i += size) {
    differing += std::memcmp(&a[i], &b[i], size) != 0 ? 1 : 0;
  }
  return differing;
}

// sum (x - y)^2 / sum x^2
double relative_mse(const std::vector<float>& x, const std::vector<float>& y) {
  double error = 0;
  double total = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    error += std::pow(static_cast<double>(x[i]) - y[i], 2);
    total += std::pow(static_cast<double>(x[i]), 2);
  }
  return error / total;
}

class ReferenceBytes : public testing::TestWithParam<KernelsAndType> {};

std::vector<TensorType> types_with_vectors() {
  std::vector<TensorType> types;
  for (const auto& entry : vectors()["types"].items()) {
    const auto type = parse_tensor_type(entry.key());
    if (type) types.push_back(*type);
  }
  return types;
}

TEST_P(ReferenceBytes, OfTheQuantizer) {
  const auto [kernels, type] = GetParam();
  const auto found = vectors()["types"].find(name_of(type));
  const size_t columns = vectors()["cols"];
  const std::vector<float> x = floats_from_hex(vectors()["x_f32"]);
  const std::vector<float> importance = floats_from_hex(vectors()["importance_f32"]);
  ASSERT_EQ(importance.size() % columns, 0U);
  for (const bool weighted : {false, true}) {
    const char* key = weighted ? "with_importance" : "plain";
    if (!found->contains(key)) continue;
    const Bytes expected = from_hex((*found)[key]);
    const Bytes bytes =
        encode_rows(*kernels, type, x, columns, weighted ? importance.data() : nullptr);
    ASSERT_EQ(bytes.size(), expected.size());
    EXPECT_LE(differing_blocks(type, bytes, expected), blocks_that_may_differ(type, weighted))
        << key;
    EXPECT_LE(relative_mse(x, decode_rows(type, bytes, x.size())),
              1.1 * relative_mse(x, decode_rows(type, expected, x.size())))
        << key;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReferenceBytes,
                         testing::Combine(testing::ValuesIn(quant_kernels().begin(),
                                                            quant_kernels().end()),
                                          testing::ValuesIn(types_with_vectors())),
                         test_name);

uint64_t fnv1a(const void* data, size_t n) {
  uint64_t hash = 0xCBF29CE484222325;
  for (size_t i = 0; i < n; ++i) {
    hash = (hash ^ static_cast<const uint8_t*>(data)[i]) * 0x100000001B3;
  }
  return hash;
}
uint64_t fnv1a(const Bytes& bytes) {
  return fnv1a(bytes.data(), bytes.size());
}
uint64_t fnv1a(const std::vector<float>& values) {
  return fnv1a(values.data(), values.size() * sizeof(float));
}

struct Lcg {
  uint32_t state;
  uint32_t next() { return state = state * 1664525 + 1013904223; }
};

constexpr size_t kColumns = 1024;

// Four rows: bell-shaped; its absolute values; partly zero and partly constant; tiny.
std::vector<float> generated_weights() {
  Lcg lcg{1};
  std::vector<float> x(4 * kColumns);
  for (float& v : x) {
    int sum = -131070;
    for (int i = 0; i < 4; ++i) sum += static_cast<int>(lcg.next() >> 16);
    v = std::ldexp(static_cast<float>(sum), -20);
  }
  for (size_t i = 0; i < kColumns; ++i) {
    x[kColumns + i] = std::abs(x[kColumns + i]);
    if (i < 768) x[2 * kColumns + i] = i < 512 ? 0 : 0.0625F;
    x[3 * kColumns + i] = std::ldexp(x[3 * kColumns + i], -20);
  }
  return x;
}

std::vector<float> generated_importance() {
  Lcg lcg{2};
  std::vector<float> g(kColumns);
  for (float& v : g) v = std::ldexp(static_cast<float>(1 + (lcg.next() >> 20)), -8);
  return g;
}

struct Hashes {
  TensorType type;
  uint64_t plain, plain_decoded, weighted, weighted_decoded;
};

using enum TensorType;

// FNV-1a of the bytes of the reference quantizer and of the floats they decode to.
constexpr Hashes kHashes[] = {
    {kF16, 0x3d087d2c64eebe96, 0, 0x3d087d2c64eebe96, 0},
    {kBF16, 0x6c460ad4876955d8, 0, 0x6c460ad4876955d8, 0},
    {kQ4_0, 0xe013d2a6ebc46ca4, 0x0a516d818b596af8, 0xd5eb07a050bf540b, 0x9dd0a73d5ec50a91},
    {kQ4_1, 0x3267bffa4b9f6c5b, 0xe6f2b167c092996f, 0x435839a719b0211a, 0xdf3fd240889a6b14},
    {kQ5_0, 0xaf8cd1679033033e, 0x274eaf8da6940fea, 0x295e087681dca1d8, 0x2e6744ab23ae60f9},
    {kQ5_1, 0x75174d4cbee38c3e, 0xa4b00a77e46c941b, 0xfeaf1c73cfce626d, 0xa3d942b6c0bdde23},
    {kQ8_0, 0xbdf632c472cd95b8, 0x4f2e42fba5c2b925, 0xbdf632c472cd95b8, 0x4f2e42fba5c2b925},
    {kQ2_K, 0x3f83694eb8a15e9c, 0x73f8b2f4fded2d74, 0xd36e71264e2af3b9, 0x8a2a125891902a40},
    {kQ3_K, 0xae68181d779156c6, 0xd006b8db22bbeef0, 0xc4b2e9371e670fda, 0x8dc693b4337537d7},
    {kQ4_K, 0x01b5fb982f1a1ab1, 0xc68975a3ce9f3ef3, 0x24cd91046a89b8eb, 0x0c37312977a8ae1f},
    {kQ5_K, 0x527d0e06000a64d4, 0xab80741080493433, 0x0df7b825927106ce, 0xba66a070fde123c8},
    {kQ6_K, 0xefd4f5f17740b9e5, 0xe3889ad076dec4b8, 0xe11ab3c24455a8f9, 0x868d8194b62b1d24},
    {kIQ4_NL, 0x73afdd8b6c002767, 0x97d2c99fa3811993, 0xfb6b9e8ab57b8abc, 0x51e1aa1ebcbae09c},
    // The bytes of F32 rows are the rows.
    {kF32, 0x2c5c4d040ed158eb, 0x2c5c4d040ed158eb, 0x2c5c4d040ed158eb, 0x2c5c4d040ed158eb},
};

TEST_P(KnownAnswers, HashesOfGeneratedRows) {
  const auto [kernels, type] = GetParam();
  const std::vector<float> x = generated_weights();
  const std::vector<float> g = generated_importance();
  ASSERT_EQ(fnv1a(x), 0x2c5c4d040ed158ebU);
  ASSERT_EQ(fnv1a(g), 0x5a10306aeb34f780U);
  const Hashes& expected = *std::ranges::find(kHashes, type, &Hashes::type);
  const Bytes plain = encode_rows(*kernels, type, x, kColumns, nullptr);
  const Bytes weighted = encode_rows(*kernels, type, x, kColumns, g.data());
  EXPECT_EQ(fnv1a(plain), expected.plain);
  EXPECT_EQ(fnv1a(weighted), expected.weighted);
  if (expected.plain_decoded == 0) return;
  EXPECT_EQ(fnv1a(decode_rows(type, plain, x.size())), expected.plain_decoded);
  EXPECT_EQ(fnv1a(decode_rows(type, weighted, x.size())), expected.weighted_decoded);
}

// A run of equal bytes.
struct Run {
  size_t count;
  uint8_t byte;
};

struct Degenerate {
  TensorType type;
  std::vector<Run> zeros;           // block of zeros without importance
  std::vector<Run> weighted_zeros;  // with importance
  std::vector<Run> halves;          // block of -0.5
};

Bytes concatenated(const std::vector<Run>& runs) {
  Bytes bytes;
  for (const Run& run : runs) bytes.insert(bytes.end(), run.count, run.byte);
  return bytes;
}

const std::vector<Degenerate>& degenerate_blocks() {
  static const std::vector<Degenerate> blocks = {
      {kQ4_0, {{1, 0}, {1, 0x80}, {16, 0x88}}, {{18, 0}}, {{1, 0}, {1, 0x2C}, {16, 0}}},
      {kQ5_0, {{1, 0}, {1, 0x80}, {4, 0xFF}, {16, 0}}, {{22, 0}}, {{1, 0}, {1, 0x28}, {20, 0}}},
      {kQ4_1, {{20, 0}}, {{20, 0}}, {{3, 0}, {1, 0xB8}, {16, 0}}},
      {kQ5_1, {{24, 0}}, {{24, 0}}, {{3, 0}, {1, 0xB8}, {20, 0}}},
      {kQ8_0, {{34, 0}}, {{34, 0}}, {{1, 0x08}, {1, 0x1C}, {32, 0x81}}},
      {kIQ4_NL, {{2, 0}, {16, 0x88}}, {{2, 0}, {16, 0x88}}, {{1, 0x88}, {1, 0x9C}, {16, 0xFF}}},
      {kQ2_K, {{84, 0}}, {{84, 0}}, {{16, 0xF0}, {66, 0}, {1, 0x44}, {1, 0x28}}},
      {kQ3_K, {{110, 0}}, {{110, 0}}, {{109, 0}, {1, 0x9C}}},
      {kQ4_K,
       {{144, 0}},
       {{144, 0}},
       {{2, 0}, {1, 0x10}, {1, 0x20}, {4, 0}, {4, 0xFF}, {4, 0xF0}, {128, 0}}},
      {kQ5_K,
       {{176, 0}},
       {{176, 0}},
       {{2, 0}, {1, 0x10}, {1, 0x20}, {4, 0}, {4, 0xFF}, {4, 0xF0}, {160, 0}}},
      {kQ6_K, {{210, 0}}, {{210, 0}}, {{192, 0}, {16, 0x80}, {1, 0}, {1, 0x88}}},
      {kF16, {{2, 0}}, {{2, 0}}, {{1, 0}, {1, 0xB8}}},
      {kBF16, {{2, 0}}, {{2, 0}}, {{1, 0}, {1, 0xBF}}},
      {kF32, {{4, 0}}, {{4, 0}}, {{3, 0}, {1, 0xBF}}},
  };
  return blocks;
}

TEST_P(KnownAnswers, DegenerateBlocks) {
  const auto [kernels, type] = GetParam();
  const Degenerate& expected = *std::ranges::find(degenerate_blocks(), type, &Degenerate::type);
  const size_t n = tensor_type_info(type).block_elements;
  const std::vector<float> importance(n, 2.0F);
  const std::vector<float> zeros(n, 0.0F);
  const std::vector<float> halves(n, -0.5F);
  EXPECT_EQ(encode_rows(*kernels, type, zeros, n, nullptr), concatenated(expected.zeros));
  EXPECT_EQ(encode_rows(*kernels, type, zeros, n, importance.data()),
            concatenated(expected.weighted_zeros));
  EXPECT_EQ(encode_rows(*kernels, type, halves, n, nullptr), concatenated(expected.halves));
}

INSTANTIATE_TEST_SUITE_P(All, KnownAnswers,
                         testing::Combine(testing::ValuesIn(quant_kernels().begin(),
                                                            quant_kernels().end()),
                                          testing::ValuesIn(all_types())),
                         test_name);

TEST(RowCodecQ8, RoundsHalfAwayFromZero) {
  // The peak of 127 makes the scale 1, so that the codes are the rounded values.
  std::vector<float> x(32, 0.0F);
  const std::vector<std::pair<float, int>> cases = {
      {127, 127},        {0.5F, 1},     {-0.5F, -1},     {0.49999997F, 0}, {-0.49999997F, 0},
      {1.5F, 2},         {2.5F, 3},     {-2.5F, -3},     {2.4999998F, 2},  {63.499996F, 63},
      {126.49999F, 126}, {126.5F, 127}, {-126.5F, -127}, {1e-30F, 0},
  };
  for (size_t i = 0; i < cases.size(); ++i) x[i] = cases[i].first;
  for (const QuantKernels* kernels : quant_kernels()) {
    const Bytes bytes = encode_rows(*kernels, kQ8_0, x, 32, nullptr);
    ASSERT_EQ(bytes.size(), 34U);
    for (size_t i = 0; i < cases.size(); ++i) {
      EXPECT_EQ(static_cast<int8_t>(bytes[2 + i]), cases[i].second)
          << kernels->name << " " << cases[i].first;
    }
  }
}

// ---- every set of kernels against the scalar specification ----

using Rng = std::mt19937;

struct Family {
  const char* name;
  float (*value)(Rng& rng, float normal);
};

constexpr Family kFamilies[] = {
    {"normal", [](Rng&, float v) { return v * 0.02F; }},
    {"heavy_tails", [](Rng&, float v) { return v * v * v * v * v; }},
    {"positive", [](Rng&, float v) { return std::abs(v); }},
    {"negative", [](Rng&, float v) { return -std::abs(v) - 0.1F; }},
    {"mostly_zero", [](Rng& rng, float v) { return rng() % 100 == 0 ? v : 0; }},
    {"zeros_of_both_signs", [](Rng&, float v) { return std::copysign(0.0F, v); }},
    {"near_the_threshold", [](Rng&, float v) { return v * 1e-15F; }},
    {"subnormal", [](Rng&, float v) { return v * 1e-40F; }},
    {"mixed_magnitudes", [](Rng& rng, float v) { return std::ldexp(v, -int(rng() % 30)); }},
    {"halves", [](Rng&, float v) { return std::round(v * 8) / 2; }},
    {"ties", [](Rng&, float v) { return v < 0 ? -1.0F : 1.0F; }},
    {"large", [](Rng&, float v) { return v * 1000; }},
};

class AgainstScalar : public testing::TestWithParam<KernelsAndType> {};

std::vector<float> make_row(const Family& family, size_t n, Rng& rng) {
  std::normal_distribution<float> normal;
  std::vector<float> row(n);
  for (float& v : row) v = family.value(rng, normal(rng));
  return row;
}

std::vector<float> make_importance(size_t n, Rng& rng) {
  std::uniform_real_distribution<float> uniform(0, 4);
  std::vector<float> importance(n);
  for (float& v : importance) v = rng() % 3 == 0 ? 0 : uniform(rng);
  return importance;
}

TEST_P(AgainstScalar, SameBytes) {
  const auto [kernels, type] = GetParam();
  Rng rng(7);
  for (const Family& family : kFamilies) {
    for (size_t blocks : {1, 2, 3, 8, 19}) {  // below, at and beyond the lanes and the batches
      const size_t n = blocks * 256 + (tensor_type_info(type).block_elements < 256 ? 96 : 0);
      const std::vector<float> row = make_row(family, n, rng);
      const std::vector<float> g = make_importance(n, rng);
      for (const float* importance : {static_cast<const float*>(nullptr), g.data()}) {
        EXPECT_EQ(encode_rows(*kernels, type, row, n, importance),
                  encode_rows(kQuantScalar, type, row, n, importance))
            << family.name << ", " << n << " values, importance: " << (importance != nullptr);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, AgainstScalar,
                         testing::Combine(testing::ValuesIn(quant_kernels().begin(),
                                                            quant_kernels().end() - 1),
                                          testing::ValuesIn(all_types())),
                         test_name);

// ---- what cannot be encoded ----

class Codec : public testing::TestWithParam<TensorType> {
 protected:
  bool encodes(const std::vector<float>& row, const float* importance = nullptr) const {
    Bytes out(row_bytes(GetParam(), row.size()));
    return row_codec(GetParam()).encode(row.data(), row.size(), importance, bytes_of(out));
  }
};

TEST_P(Codec, RefusesValuesThatAreNotFinite) {
  const std::vector<float> importance(512, 1.0F);
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    for (const size_t place : {0, 31, 300, 511}) {
      std::vector<float> row(512, 0.25F);
      EXPECT_TRUE(encodes(row));
      row[place] = bad;
      EXPECT_FALSE(encodes(row)) << bad << " at " << place;
      EXPECT_FALSE(encodes(row, importance.data())) << bad << " at " << place;
    }
  }
}

TEST_P(Codec, RefusesScalesThatOverflow) {
  std::vector<float> row(512);
  for (size_t i = 0; i < row.size(); ++i) row[i] = i % 2 == 0 ? 1e12F : -1e12F;
  const bool has_wide_exponent = GetParam() == kF32 || GetParam() == kBF16;
  EXPECT_EQ(encodes(row), has_wide_exponent);
  EXPECT_EQ(encodes(row, std::vector<float>(512, 1.0F).data()), has_wide_exponent);
}

TEST(RowCodecBf16, RefusesWhatRoundsToInfinity) {
  const float largest = std::numeric_limits<float>::max();
  uint16_t bits;
  EXPECT_FALSE(row_codec(kBF16).encode(&largest, 1, nullptr, reinterpret_cast<std::byte*>(&bits)));
}

// ---- decoders against the formulas of the format in f64 ----

double half_at(const uint8_t* block, size_t offset) {
  return f16_to_f32(static_cast<uint16_t>(block[offset] | block[offset + 1] << 8));
}

int two_bits(const uint8_t* plane, int e) {
  return (plane[32 * (e / 128) + e % 32] >> (2 * (e % 128 / 32))) & 3;
}

int nibble_256(const uint8_t* plane, int e) {
  return (plane[32 * (e / 64) + e % 32] >> (4 * (e / 32 % 2))) & 15;
}

int nibble_32(const uint8_t* qs, int e) {
  return (qs[e % 16] >> (e < 16 ? 0 : 4)) & 15;
}

int bit_32(const uint8_t* qh, int e) {
  return (qh[e / 8] >> (e % 8)) & 1;
}

double q2_k(const uint8_t* b, int e) {
  const int scales = b[e / 16];
  return half_at(b, 80) * (scales & 15) * two_bits(b + 16, e) - half_at(b, 82) * (scales >> 4);
}

double q3_k(const uint8_t* b, int e) {
  const int j = e / 16;
  const uint8_t* scales = b + 96;
  const int low = (scales[j % 8] >> (j < 8 ? 0 : 4)) & 15;
  const int high = (scales[8 + j % 4] >> (2 * (j / 4))) & 3;
  const int code = two_bits(b + 32, e) - (((b[e % 32] >> (e / 32)) & 1) != 0 ? 0 : 4);
  return half_at(b, 108) * (low + 16 * high - 32) * code;
}

double q4_q5_k(const uint8_t* b, int e, int code) {
  const int j = e / 32;
  const uint8_t* k = b + 4;
  const int sc = j < 4 ? k[j] & 63 : (k[j + 4] & 15) + 16 * (k[j - 4] >> 6);
  const int mn = j < 4 ? k[j + 4] & 63 : (k[j + 4] >> 4) + 16 * (k[j] >> 6);
  return half_at(b, 0) * sc * code - half_at(b, 2) * mn;
}

double q6_k(const uint8_t* b, int e) {
  const int s = e % 128 / 32;
  const int low = (b[64 * (e / 128) + 32 * (s % 2) + e % 32] >> (s < 2 ? 0 : 4)) & 15;
  const int code = low + 16 * two_bits(b + 128, e) - 32;
  return half_at(b, 208) * static_cast<int8_t>(b[192 + e / 16]) * code;
}

double iq4_nl(const uint8_t* b, int e) {
  constexpr int kTable[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                              1,    13,   25,  38,  53,  69,  89,  113};
  return half_at(b, 0) * kTable[nibble_32(b + 2, e)];
}

double f32_at(const uint8_t* b) {
  float value;
  std::memcpy(&value, b, sizeof value);
  return value;
}

double bf16_at(const uint8_t* b) {
  const uint8_t wide[4] = {0, 0, b[0], b[1]};
  return f32_at(wide);
}

double formula(TensorType type, const uint8_t* b, int e) {
  switch (type) {
    case kF32:
      return f32_at(b);
    case kF16:
      return half_at(b, 0);
    case kBF16:
      return bf16_at(b);
    case kQ4_0:
      return half_at(b, 0) * (nibble_32(b + 2, e) - 8);
    case kQ4_1:
      return half_at(b, 0) * nibble_32(b + 4, e) + half_at(b, 2);
    case kQ5_0:
      return half_at(b, 0) * (nibble_32(b + 6, e) + 16 * bit_32(b + 2, e) - 16);
    case kQ5_1:
      return half_at(b, 0) * (nibble_32(b + 8, e) + 16 * bit_32(b + 4, e)) + half_at(b, 2);
    case kQ8_0:
      return half_at(b, 0) * static_cast<int8_t>(b[2 + e]);
    case kIQ4_NL:
      return iq4_nl(b, e);
    case kQ2_K:
      return q2_k(b, e);
    case kQ3_K:
      return q3_k(b, e);
    case kQ4_K:
      return q4_q5_k(b, e, nibble_256(b + 16, e));
    case kQ5_K:
      return q4_q5_k(b, e, nibble_256(b + 48, e) + 16 * ((b[16 + e % 32] >> (e / 32)) & 1));
    case kQ6_K:
      return q6_k(b, e);
  }
  return 0;
}

// Every F16 field is finite in a valid block; clearing one exponent bit makes it so.
void make_valid(TensorType type, uint8_t* block) {
  switch (type) {
    case kF32:
      block[3] &= 0xBF;
      break;
    case kBF16:
    case kF16:
    case kQ4_0:
    case kQ5_0:
    case kQ8_0:
    case kIQ4_NL:
      block[1] &= 0xBF;
      break;
    case kQ4_1:
    case kQ5_1:
    case kQ4_K:
    case kQ5_K:
      block[1] &= 0xBF;
      block[3] &= 0xBF;
      break;
    case kQ2_K:
      block[81] &= 0xBF;
      block[83] &= 0xBF;
      break;
    case kQ3_K:
      block[109] &= 0xBF;
      break;
    case kQ6_K:
      block[209] &= 0xBF;
      break;
  }
}

// All products are exact in f64, and so is their sum; the decoder rounds only once, at its end.
TEST_P(Codec, DecodesRandomBlocksByTheFormulas) {
  const TensorType type = GetParam();
  const auto n = static_cast<int>(tensor_type_info(type).block_elements);
  const size_t block_bytes = tensor_type_info(type).block_bytes;
  constexpr int kBlocks = 400;
  Rng rng(3);
  Bytes bytes(kBlocks * block_bytes);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng());
  for (int b = 0; b < kBlocks; ++b) make_valid(type, bytes.data() + b * block_bytes);
  const std::vector<float> decoded = decode_rows(type, bytes, static_cast<size_t>(kBlocks) * n);
  for (int i = 0; i < kBlocks * n; ++i) {
    const double expected = formula(type, bytes.data() + i / n * block_bytes, i % n);
    ASSERT_EQ(decoded[i], static_cast<float>(expected)) << "block " << i / n << ", " << i % n;
  }
}

class ReferenceLoss : public testing::TestWithParam<TensorType> {};

TEST_P(ReferenceLoss, OfDecodedRows) {
  const auto found = vectors()["types"].find(name_of(GetParam()));
  const std::vector<float> x = floats_from_hex(vectors()["x_f32"]);
  const std::vector<float> decoded = decode_rows(GetParam(), from_hex((*found)["plain"]), x.size());
  const double expected = (*found)["relative_mse"];
  EXPECT_NEAR(relative_mse(x, decoded), expected, 1e-5 * expected);
}

std::string type_name(const testing::TestParamInfo<TensorType>& info) {
  return std::string(name_of(info.param));
}

INSTANTIATE_TEST_SUITE_P(All, ReferenceLoss, testing::ValuesIn(types_with_vectors()), type_name);
INSTANTIATE_TEST_SUITE_P(All, Codec, testing::ValuesIn(all_types()), type_name);

}  // namespace
}  // namespace hf2q
