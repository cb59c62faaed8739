#include "engine/cache_quality.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/check.h"
#include "engine/text_score.h"

namespace hf2q {
namespace {

double cosine(std::span<const float> u, std::span<const float> v) {
  double uu = 0;
  double uv = 0;
  double vv = 0;
  for (size_t i = 0; i < u.size(); ++i) {
    uu += double{u[i]} * u[i];
    uv += double{u[i]} * v[i];
    vv += double{v[i]} * v[i];
  }
  return uu == vv && uv == uu ? 1 : uv / std::sqrt(uu * vv);
}

// Keeps what a's pass over a chunk showed until b's pass over the same chunk.
class Comparison {
 public:
  explicit Comparison(size_t n_layers) : layers_(n_layers) {}

  void see_a(const Point& point) {
    if (point.name == "sdpa_out") {
      layers_[index(point)].attention.assign(point.data, point.data + point.n * point.cols);
    } else if (point.name == "router_weights") {
      layers_[index(point)].experts.assign(point.ids, point.ids + point.n * point.cols);
    }
  }

  void see_b(const Point& point) {
    if (point.name == "sdpa_out") {
      compare_attention(point, layers_[index(point)]);
    } else if (point.name == "router_weights") {
      compare_experts(point, layers_[index(point)]);
    }
  }

  CacheQuality result(const Divergence& divergence) const {
    CacheQuality quality = {divergence, {}, n_routed_, n_flips_};
    for (const Layer& layer : layers_) {
      quality.attention_cosine.push_back(layer.cosines / static_cast<double>(layer.n_rows));
    }
    return quality;
  }

 private:
  struct Layer {
    std::vector<float> attention;
    std::vector<uint32_t> experts;
    double cosines = 0;
    uint64_t n_rows = 0;
  };

  static size_t index(const Point& point) { return static_cast<size_t>(point.layer); }

  static void compare_attention(const Point& point, Layer& layer) {
    CHECK(layer.attention.size() == point.n * point.cols);
    for (size_t r = 0; r < point.n; ++r) {
      layer.cosines += cosine(std::span(layer.attention).subspan(r * point.cols, point.cols),
                              {point.data + r * point.cols, point.cols});
    }
    layer.n_rows += point.n;
  }

  void compare_experts(const Point& point, const Layer& layer) {
    CHECK(layer.experts.size() == point.n * point.cols);
    for (size_t r = 0; r < point.n; ++r) {
      const auto* a = layer.experts.data() + r * point.cols;
      const auto* b = point.ids + r * point.cols;
      const bool same =
          std::set<uint32_t>(a, a + point.cols) == std::set<uint32_t>(b, b + point.cols);
      n_flips_ += same ? 0 : 1;
    }
    n_routed_ += point.n;
  }

  std::vector<Layer> layers_;
  uint64_t n_routed_ = 0;
  uint64_t n_flips_ = 0;
};

}  // namespace

Result<CacheQuality> compare_caches(Engine& a, Engine& b, std::span<const int32_t> ids) {
  CHECK(a.config().n_layers == b.config().n_layers);
  Comparison comparison(a.config().n_layers);
  const Observer see_a = [&](const Point& point) { comparison.see_a(point); };
  const Observer see_b = [&](const Point& point) { comparison.see_b(point); };
  TRY(divergence, compare_on_text(a, b, ids, &see_a, &see_b));
  return comparison.result(divergence);
}

}  // namespace hf2q
