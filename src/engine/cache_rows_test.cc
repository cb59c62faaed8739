// What trace --cache writes, replayed by what its description says and nothing else.

#include "engine/cache_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/half.h"
#include "engine/test_engine.h"
#include "engine/trace.h"

namespace hf2q {
namespace {

using nlohmann::ordered_json;
using testing_support::value_of;

const StoredTensor* stored(const CacheRows& rows, const std::string& name) {
  for (const StoredTensor& tensor : rows.tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

double number_at(const StoredTensor& tensor, size_t i) {
  const auto at = [&]<class T>(T value) {
    std::memcpy(&value, tensor.bytes.data() + i * sizeof(T), sizeof(T));
    return value;
  };
  switch (tensor.dtype) {
    case Dtype::kF32:
      return at(0.0F);
    case Dtype::kF16:
      return f16_to_f32(at(uint16_t{0}));
    case Dtype::kBF16:
      return bf16_to_f32(at(uint16_t{0}));
    case Dtype::kI8:
      return at(int8_t{0});
    default:
      ADD_FAILURE() << tensor.name;
      return 0;
  }
}

uint32_t code_at(const StoredTensor& tensor, size_t row, size_t bit, uint32_t n_bits) {
  uint32_t code = 0;
  for (uint32_t i = 0; i < n_bits; ++i) {
    const auto byte = static_cast<uint32_t>(tensor.bytes[row * tensor.shape[2] + (bit + i) / 8]);
    code |= (byte >> ((bit + i) % 8) & 1) << i;
  }
  return code;
}

// D H y, H as the sum that defines it.
std::vector<double> unrotate(const std::vector<double>& y, const std::string& signs) {
  std::vector<double> x(y.size(), 0);
  for (size_t i = 0; i < y.size(); ++i) {
    for (size_t j = 0; j < y.size(); ++j) {
      x[i] += __builtin_popcountll(i & j) % 2 == 0 ? y[j] : -y[j];
    }
    const int byte = std::stoi(signs.substr(i / 8 * 2, 2), nullptr, 16);
    x[i] *= ((byte >> (i % 8) & 1) != 0 ? -1 : 1) / std::sqrt(static_cast<double>(y.size()));
  }
  return x;
}

// Row `row` of [heads x positions].
std::vector<double> replay_row(const CacheRows& rows, const std::string& name,
                               const ordered_json& format, size_t d, size_t row) {
  const StoredTensor& codes = *stored(rows, name + "_codes");
  const StoredTensor* norms = stored(rows, name + "_norms");
  EXPECT_EQ(norms != nullptr, format["norm_block"] != 0);
  std::vector<double> x;
  for (size_t j = 0; j < d; ++j) {
    double value = 0;
    if (format.contains("levels")) {
      const size_t per_code = format["values_per_code"];
      const uint32_t bits = format["code_bits"];
      value = format["levels"][code_at(codes, row, j / per_code * bits, bits)][j % per_code];
    } else {
      value = number_at(codes, row * d + j);
    }
    if (norms != nullptr) {
      value *= number_at(*norms, row * norms->shape[2] + j / format["norm_block"].get<size_t>());
    }
    x.push_back(value);
  }
  return format.contains("signs") ? unrotate(x, format["signs"]) : x;
}

const std::vector<float>& traced_values(const Trace& trace, const std::string& name) {
  for (const NamedValues& tensor : trace.values) {
    if (tensor.name == name) return tensor.values;
  }
  ADD_FAILURE() << name;
  static const std::vector<float> kNone;
  return kNone;
}

using Rows = std::vector<std::vector<double>>;

// The decoded rows of the trace, within F32's rounding of the transform.
Rows expect_same_rows(const Trace& trace, const std::string& which, const ordered_json& layer) {
  const size_t d = layer["head_dim"];
  const std::vector<float>& expected = traced_values(trace, which + "_cache_upto");
  Rows rows;
  for (size_t r = 0; r < layer["kv_heads"].get<size_t>() * layer["length"].get<size_t>(); ++r) {
    rows.push_back(replay_row(trace.cache,
                              fmt::format("cache.{}.{}", layer["layer"].get<int>(), which),
                              layer[which], d, r));
    double square = 0;
    for (const double value : rows.back()) square += value * value;
    for (size_t j = 0; j < d; ++j) {
      EXPECT_NEAR(rows.back()[j], expected.at(r * d + j), 1e-6 * std::sqrt(square)) << which << r;
    }
  }
  return rows;
}

// softmax(q k) v of every head against the traced result.
void expect_same_attention(const Trace& trace, const ordered_json& layer, const Rows& k,
                           const Rows& v) {
  const size_t d = layer["head_dim"];
  const size_t n = layer["length"];
  const size_t n_heads = layer["heads"];
  const size_t group = n_heads / layer["kv_heads"].get<size_t>();
  const std::vector<float>& q = traced_values(trace, "q_rotated");
  const std::vector<float>& expected = traced_values(trace, "sdpa_out");
  for (size_t head = 0; head < n_heads; ++head) {
    std::vector<double> weights(n, 0);
    for (size_t p = 0; p < n; ++p) {
      for (size_t j = 0; j < d; ++j) weights[p] += q[head * d + j] * k[head / group * n + p][j];
    }
    const double most = *std::max_element(weights.begin(), weights.end());
    double sum = 0;
    for (double& weight : weights) sum += weight = std::exp(weight - most);
    for (size_t j = 0; j < d; ++j) {
      double out = 0;
      for (size_t p = 0; p < n; ++p) out += weights[p] / sum * v[head / group * n + p][j];
      EXPECT_NEAR(out, expected.at(head * d + j), 2e-4) << "head " << head;
    }
  }
}

class CacheRowsTest : public testing::TestWithParam<KvFormat> {};

TEST_P(CacheRowsTest, AttentionCanBeReplayed) {
  EngineOptions options;
  options.n_ctx = 128;
  options.n_threads = 2;
  options.kv_formats = {GetParam(), GetParam(), GetParam(), GetParam()};
  const auto engine = load_test_engine(HF2Q_TEST_DATA "/micro-ple", FileType::kF32, options);
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 40; ++i) ids.push_back(300 + i * 37);
  // A window of 24 that has passed, all tokens, and a layer that reads another's rows.
  for (const uint32_t index : {0U, 3U, 4U}) {
    TraceOptions wanted;
    wanted.layer = index;
    wanted.token = 36;
    wanted.cache_layers = {index};
    const Trace traced = value_of(trace(*engine, ids, wanted));
    const ordered_json layer = ordered_json::parse(traced.cache.description)["layers"][0];
    EXPECT_EQ(layer["owner"], index == 4 ? 2U : index);
    EXPECT_EQ(layer["window"], index == 3 ? 0 : 24);
    EXPECT_EQ(layer["type"], index == 3 ? "full" : "sliding");
    EXPECT_EQ(layer["first"], index == 3 ? 0 : 13);
    EXPECT_EQ(layer["first"].get<int>() + layer["length"].get<int>(), 37);
    EXPECT_EQ(layer["k"]["format"], kv_format_info(GetParam()).name);
    const Rows k = expect_same_rows(traced, "k", layer);
    const Rows v = expect_same_rows(traced, "v", layer);
    expect_same_attention(traced, layer, k, v);
  }
}

INSTANTIATE_TEST_SUITE_P(All, CacheRowsTest,
                         testing::Values(KvFormat::kF32, KvFormat::kF16, KvFormat::kBF16,
                                         KvFormat::kQ8_0, KvFormat::kTq8, KvFormat::kTq6,
                                         KvFormat::kTq5, KvFormat::kTq4, KvFormat::kTq3Half,
                                         KvFormat::kTq3, KvFormat::kTq2Half, KvFormat::kTq2),
                         [](const auto& info) {
                           std::string name(kv_format_info(info.param).name);
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace hf2q
