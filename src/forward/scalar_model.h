#pragma once
// The text decoder with per-layer inputs and shared KV as plain F64 loops over a checkpoint's own
// tensors: an oracle for what the reference values do not cover (additions after a layer, rotary
// positions with several axes). One sequence, no cache, one KV head; for tests.
// Source: the formulas of the Gemma 4 text decoder, written without the code under test.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>
#include <vector>

#include "forward/batch.h"
#include "safetensors/safetensors.h"
#include "safetensors/widen.h"
#include "support/temp_folder.h"
#include "support/value_of.h"

namespace hf2q {

class ScalarModel {
 public:
  using Row = std::vector<double>;
  struct Output {
    std::vector<std::vector<Row>> layers;  // [n_layers][n][hidden]: what each layer leaves
    std::vector<Row> logits;               // [n][vocab]
  };

  explicit ScalarModel(const std::string& folder)
      : config_(nlohmann::json::parse(testing_support::read_text(folder + "/config.json"))),
        tensors_(testing_support::value_of(Checkpoint::open(folder))) {
    EXPECT_EQ(config_["num_key_value_heads"], 1);
  }

  // `rotary` without axes: positions 0, 1, 2, ...
  Output run(const std::vector<int32_t>& ids, const std::vector<Addition>& additions = {},
             const RotaryPositions& rotary = {}) {
    Output output;
    std::vector<Row> x;
    for (const int32_t id : ids) {
      x.push_back(row_of("embed_tokens", id, size("hidden_size"), std::sqrt(size("hidden_size"))));
    }
    const std::vector<Row> ple = per_layer_inputs(ids, x);
    donors_.clear();
    for (size_t i = 0; i < size("num_hidden_layers"); ++i) {
      layer(i, ple, rotary, x);
      for (const Addition& addition : additions) {
        if (addition.layer == i) add_rows(addition, x);
      }
      output.layers.push_back(x);
    }
    for (const Row& row : x) output.logits.push_back(head(row));
    return output;
  }

 private:
  struct KeysValues {
    std::vector<Row> k, v;  // [n][head_dim]
  };

  size_t size(const char* key) const { return config_[key].get<size_t>(); }
  bool sliding(size_t i) const { return config_["layer_types"][i] == "sliding_attention"; }
  size_t head_dim(size_t i) const { return size(sliding(i) ? "head_dim" : "global_head_dim"); }

  const std::vector<float>& tensor(const std::string& name) {
    std::vector<float>& values = cache_[name];
    if (!values.empty()) return values;
    const SourceTensor* source = tensors_.find("model." + name);
    EXPECT_NE(source, nullptr) << name;
    values.resize(source->n_elements());
    EXPECT_TRUE(widen(*source, 0, values.size(), values.data()).ok());
    return values;
  }
  static std::string at(size_t i, const std::string& name) {
    return fmt::format("layers.{}.{}", i, name);
  }

  Row row_of(const std::string& table, int32_t id, size_t cols, double scale) {
    const std::vector<float>& values = tensor(table + ".weight");
    Row row;
    for (size_t c = 0; c < cols; ++c)
      row.push_back(scale * values[static_cast<size_t>(id) * cols + c]);
    return row;
  }
  Row multiply(const std::string& name, const Row& x) {
    const std::vector<float>& w = tensor(name + ".weight");
    Row y(w.size() / x.size());
    for (size_t r = 0; r < y.size(); ++r) {
      for (size_t c = 0; c < x.size(); ++c) y[r] += w[r * x.size() + c] * x[c];
    }
    return y;
  }
  // The norm of x[begin, begin + n), in place; "" for one without a weight.
  void norm(const std::string& name, Row& x, size_t begin, size_t n) {
    double sum = 0;
    for (size_t c = 0; c < n; ++c) sum += x[begin + c] * x[begin + c];
    const double factor =
        1 / std::sqrt(sum / static_cast<double>(n) + config_["rms_norm_eps"].get<double>());
    for (size_t c = 0; c < n; ++c) {
      x[begin + c] *= factor * (name.empty() ? 1.0 : tensor(name + ".weight")[c]);
    }
  }
  Row normed(const std::string& name, Row x) {
    norm(name, x, 0, x.size());
    return x;
  }
  static void add_to(const Row& y, Row& x) {
    for (size_t c = 0; c < x.size(); ++c) x[c] += y[c];
  }
  static double gelu(double x) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  }

  void add_rows(const Addition& addition, std::vector<Row>& x) const {
    const size_t hidden = size("hidden_size");
    for (size_t k = 0; k < addition.rows.size(); ++k) {
      for (size_t c = 0; c < hidden; ++c) x[addition.rows[k]][c] += addition.values[k * hidden + c];
    }
  }

  std::vector<Row> per_layer_inputs(const std::vector<int32_t>& ids, const std::vector<Row>& x) {
    const size_t width = size("hidden_size_per_layer_input");
    const size_t all = width * size("num_hidden_layers");
    std::vector<Row> result;
    for (size_t t = 0; t < ids.size(); ++t) {
      Row row = multiply("per_layer_model_projection", x[t]);
      for (double& value : row) value /= std::sqrt(static_cast<double>(x[t].size()));
      for (size_t i = 0; i < all; i += width) norm("per_layer_projection_norm", row, i, width);
      add_to(row_of("embed_tokens_per_layer", ids[t], all, std::sqrt(static_cast<double>(width))),
             row);
      for (double& value : row) value /= std::numbers::sqrt2;
      result.push_back(row);
    }
    return result;
  }

  // Turns the pairs (p, p + n/2) of x[begin, begin + n) by position times base^(-2p/n).
  void rotate(size_t i, size_t t, const RotaryPositions& rotary, Row& x, size_t begin) const {
    const size_t n = head_dim(i);
    const nlohmann::json& rope = config_["rope_parameters"][config_["layer_types"][i]];
    const size_t n_pairs =
        static_cast<size_t>(rope.value("partial_rotary_factor", 1.0) * static_cast<double>(n)) / 2;
    for (size_t p = 0; p < n_pairs; ++p) {
      auto position = static_cast<double>(t);
      if (rotary.n_axes > 0) {
        const size_t axis = rotary.axis_of_pair[p % rotary.axis_of_pair.size()];
        position = static_cast<double>(rotary.positions[t * rotary.n_axes + axis]);
      }
      const double angle =
          position * std::pow(rope["rope_theta"].get<double>(),
                              -2.0 * static_cast<double>(p) / static_cast<double>(n));
      double& a = x[begin + p];
      double& b = x[begin + p + n / 2];
      const double turned = a * std::cos(angle) - b * std::sin(angle);
      b = b * std::cos(angle) + a * std::sin(angle);
      a = turned;
    }
  }

  // K and V of layer i: its own, or those of the last layer of its type that has some.
  const KeysValues& keys_values(size_t i, const RotaryPositions& rotary,
                                const std::vector<Row>& inputs) {
    KeysValues& kv = donors_[sliding(i)];
    if (i >= size("num_hidden_layers") - size("num_kv_shared_layers")) return kv;
    kv = {};
    for (size_t t = 0; t < inputs.size(); ++t) {
      Row k = normed(at(i, "self_attn.k_norm"), multiply(at(i, "self_attn.k_proj"), inputs[t]));
      rotate(i, t, rotary, k, 0);
      kv.k.push_back(k);
      kv.v.push_back(normed("", multiply(at(i, "self_attn.v_proj"), inputs[t])));
    }
    return kv;
  }

  // One query row: all heads, before the output projection.
  Row attend(size_t i, size_t t, const RotaryPositions& rotary, const Row& input,
             const KeysValues& kv) {
    const size_t n = head_dim(i);
    const size_t window = size("sliding_window");
    const size_t first = sliding(i) && t + 1 > window ? t + 1 - window : 0;
    Row q = multiply(at(i, "self_attn.q_proj"), input);
    Row out(q.size());
    for (size_t head = 0; head < q.size(); head += n) {
      norm(at(i, "self_attn.q_norm"), q, head, n);
      rotate(i, t, rotary, q, head);
      Row weights;
      for (size_t j = first; j <= t; ++j) {
        double score = 0;
        for (size_t c = 0; c < n; ++c) score += q[head + c] * kv.k[j][c];
        weights.push_back(score);
      }
      const double max = *std::max_element(weights.begin(), weights.end());
      double sum = 0;
      for (double& weight : weights) sum += weight = std::exp(weight - max);
      for (size_t j = first; j <= t; ++j) {
        for (size_t c = 0; c < n; ++c) out[head + c] += weights[j - first] / sum * kv.v[j][c];
      }
    }
    return out;
  }

  void layer(size_t i, const std::vector<Row>& ple, const RotaryPositions& rotary,
             std::vector<Row>& x) {
    std::vector<Row> inputs;
    for (const Row& row : x) inputs.push_back(normed(at(i, "input_layernorm"), row));
    const KeysValues& kv = keys_values(i, rotary, inputs);
    for (size_t t = 0; t < x.size(); ++t) {
      const Row attention =
          multiply(at(i, "self_attn.o_proj"), attend(i, t, rotary, inputs[t], kv));
      add_to(normed(at(i, "post_attention_layernorm"), attention), x[t]);
      feed_forward(i, x[t]);
      inject(i, ple[t], x[t]);
      for (double& value : x[t]) value *= tensor(at(i, "layer_scalar"))[0];
    }
  }

  void feed_forward(size_t i, Row& x) {
    const Row input = normed(at(i, "pre_feedforward_layernorm"), x);
    Row gate = multiply(at(i, "mlp.gate_proj"), input);
    const Row up = multiply(at(i, "mlp.up_proj"), input);
    for (size_t c = 0; c < gate.size(); ++c) gate[c] = gelu(gate[c]) * up[c];
    add_to(normed(at(i, "post_feedforward_layernorm"), multiply(at(i, "mlp.down_proj"), gate)), x);
  }

  void inject(size_t i, const Row& ple, Row& x) {
    Row gate = multiply(at(i, "per_layer_input_gate"), x);
    for (size_t c = 0; c < gate.size(); ++c) gate[c] = gelu(gate[c]) * ple[i * gate.size() + c];
    add_to(
        normed(at(i, "post_per_layer_input_norm"), multiply(at(i, "per_layer_projection"), gate)),
        x);
  }

  Row head(const Row& x) {
    Row logits = multiply("embed_tokens", normed("norm", x));
    const auto cap = config_["final_logit_softcapping"].get<double>();
    for (double& logit : logits) logit = cap * std::tanh(logit / cap);
    return logits;
  }

  nlohmann::json config_;
  Checkpoint tensors_;
  std::map<std::string, std::vector<float>> cache_;
  std::map<bool, KeysValues> donors_;  // by: sliding
};

}  // namespace hf2q
