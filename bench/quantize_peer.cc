// Our row encoders against those of llama.cpp's own library, loaded at run time: first that the
// bytes are the same on rows of many kinds, then how fast both are. See the script of the same
// name.
//
// usage: quantize_peer LIBGGML_BASE [THREADS] [SEEDS]

#include <dlfcn.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/half.h"
#include "quant/row_codec.h"

namespace hf2q {
namespace {

// From the library's public header (ggml.h); type ids are those of GGUF files.
using QuantizeChunk = size_t (*)(int type, const float* src, void* dst, int64_t start,
                                 int64_t n_rows, int64_t n_per_row, const float* importance);
using ValidateRow = bool (*)(int type, const void* data, size_t n_bytes);

struct Peer {
  QuantizeChunk quantize;
  ValidateRow is_valid;
};

Peer load_peer(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fmt::print(stderr, "{}\n", dlerror());
    std::exit(1);
  }
  return {reinterpret_cast<QuantizeChunk>(dlsym(library, "ggml_quantize_chunk")),
          reinterpret_cast<ValidateRow>(dlsym(library, "ggml_validate_row_data"))};
}

using Rng = std::mt19937;

struct Family {
  const char* name;
  float (*value)(Rng& rng, float normal);
};

bool one_in(Rng& rng, uint32_t n) {
  return rng() % n == 0;
}

constexpr Family kFamilies[] = {
    {"normal", [](Rng&, float v) { return v; }},
    {"small", [](Rng&, float v) { return v * 0.02F; }},
    {"heavy tails", [](Rng&, float v) { return v * v * v * v * v; }},
    {"positive", [](Rng&, float v) { return std::abs(v); }},
    {"negative", [](Rng&, float v) { return -std::abs(v) - 0.1F; }},
    {"constant", [](Rng&, float) { return 0.37F; }},
    {"mostly zero", [](Rng& rng, float v) { return one_in(rng, 16) ? v : 0; }},
    {"rare", [](Rng& rng, float v) { return one_in(rng, 300) ? v : 0; }},
    {"zeros", [](Rng& rng, float) { return one_in(rng, 2) ? 0.0F : -0.0F; }},
    {"tiny", [](Rng&, float v) { return v * 1e-12F; }},
    {"near the threshold of zero", [](Rng&, float v) { return v * 1e-15F; }},
    {"subnormal", [](Rng&, float v) { return v * 1e-40F; }},
    {"mixed magnitudes", [](Rng& rng, float v) { return std::ldexp(v, -int(rng() % 30)); }},
    {"integers", [](Rng&, float v) { return std::round(v * 4); }},
    {"halves", [](Rng&, float v) { return std::round(v * 8) / 2; }},
    {"signs", [](Rng&, float v) { return v < 0 ? -1.0F : 1.0F; }},
    {"bf16", [](Rng&, float v) { return bf16_to_f32(f32_to_bf16(v * 0.05F)); }},
    {"large", [](Rng&, float v) { return v * 1000; }},
    {"huge", [](Rng&, float v) { return v * 1e18F; }},
    {"overflowing squares", [](Rng& rng, float v) { return one_in(rng, 64) ? v * 1e25F : v; }},
};

std::vector<float> make_row(const Family& family, size_t n, Rng& rng) {
  std::normal_distribution<float> normal;
  std::vector<float> row(n);
  for (float& v : row) v = family.value(rng, normal(rng));
  return row;
}

constexpr const char* kImportances[] = {"none", "ones", "random", "half zero", "skewed"};

std::vector<float> make_importance(size_t kind, size_t n, Rng& rng) {
  std::uniform_real_distribution<float> uniform(0.01F, 4);
  std::vector<float> g(n, 1);
  if (kind < 2) return g;
  for (float& v : g) v = uniform(rng);
  for (float& v : g) {
    if (kind == 3 && one_in(rng, 2)) v = 0;
    if (kind == 4) v = std::pow(v, 9.0F);
  }
  return g;
}

// The number of rows that differ.
int compare(const Peer& peer, int seeds) {
  constexpr size_t kN = 11 * 256;
  int rows = 0;
  int differing = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    Rng rng(seed);
    for (const Family& family : kFamilies) {
      for (size_t kind = 0; kind < std::size(kImportances); ++kind) {
        const std::vector<float> row = make_row(family, kN, rng);
        const std::vector<float> g = make_importance(kind, kN, rng);
        const float* importance = kind == 0 ? nullptr : g.data();
        for (const RowCodec& codec : row_codecs()) {
          const int id = static_cast<int>(codec.type);
          std::vector<std::byte> ours(row_bytes(codec.type, kN));
          std::vector<std::byte> theirs(ours.size());
          const bool valid = codec.encode(row.data(), kN, importance, ours.data());
          peer.quantize(id, row.data(), theirs.data(), 0, 1, kN, importance);
          ++rows;
          if (valid == peer.is_valid(id, theirs.data(), theirs.size()) &&
              (!valid || ours == theirs)) {
            continue;
          }
          ++differing;
          fmt::print("{}: differs on seed {}, {}, importance {} (valid: {})\n", name_of(codec.type),
                     seed, family.name, kImportances[kind], valid);
        }
      }
    }
  }
  fmt::print("{} of {} rows differ\n\n", differing, rows);
  return differing;
}

constexpr size_t kColumns = 2816;
constexpr size_t kRows = 16;
constexpr double kSecondsPerRun = 0.02;
constexpr int kRuns = 10;

// Seconds of encode(row index) over all rows, by the fastest of several runs. A run repeats the
// rows until starting its threads counts for nothing.
template <class Encode>
double seconds(int threads, Encode encode) {
  using Clock = std::chrono::steady_clock;
  const auto run = [&](int passes) {
    const auto work = [&](int t) {
      for (int pass = 0; pass < passes; ++pass) {
        for (size_t r = t; r < kRows; r += threads) encode(r);
      }
    };
    const auto start = Clock::now();
    std::vector<std::thread> workers;
    for (int t = 1; t < threads; ++t) workers.emplace_back(work, t);
    work(0);
    for (std::thread& worker : workers) worker.join();
    return std::chrono::duration<double>(Clock::now() - start).count() / passes;
  };
  const int passes = std::max(1, static_cast<int>(kSecondsPerRun / run(1)));
  double best = run(passes);
  for (int i = 1; i < kRuns; ++i) best = std::min(best, run(passes));
  return best;
}

void time_type(const Peer& peer, const RowCodec& codec, const std::vector<float>& rows,
               const float* importance, int threads) {
  const size_t bytes = row_bytes(codec.type, kColumns);
  std::vector<std::byte> out(kRows * bytes);
  const double ours = seconds(threads, [&](size_t r) {
    codec.encode(rows.data() + r * kColumns, kColumns, importance, out.data() + r * bytes);
  });
  const double theirs = seconds(threads, [&](size_t r) {
    peer.quantize(static_cast<int>(codec.type), rows.data(), out.data(),
                  static_cast<int64_t>(r * kColumns), 1, kColumns, importance);
  });
  const double checked = seconds(threads, [&](size_t r) {
    std::byte* row = out.data() + r * bytes;
    peer.quantize(static_cast<int>(codec.type), rows.data() + r * kColumns, row, 0, 1, kColumns,
                  importance);
    peer.is_valid(static_cast<int>(codec.type), row, bytes);
  });
  const double megabytes = kRows * kColumns * sizeof(float) * 1e-6;
  fmt::print("{:<8} {:<10} {:>10.0f} {:>10.0f} {:>7.2f} {:>10.0f} {:>7.2f}\n", name_of(codec.type),
             importance != nullptr ? "yes" : "no", megabytes / ours, megabytes / theirs,
             theirs / ours, megabytes / checked, checked / ours);
}

void time_all(const Peer& peer, int threads) {
  Rng rng(1);
  const std::vector<float> rows = make_row(kFamilies[1], kRows * kColumns, rng);
  const std::vector<float> g = make_importance(2, kColumns, rng);
  fmt::print("MB of F32 per second, {} rows of {}, threads: {}\n", kRows, kColumns, threads);
  fmt::print("ours refuses values and scales that are not finite; of theirs, \"checked\" does.\n");
  fmt::print("{:<8} {:<10} {:>10} {:>10} {:>7} {:>10} {:>7}\n", "type", "importance", "ours",
             "theirs", "ratio", "checked", "ratio");
  for (const RowCodec& codec : row_codecs()) {
    time_type(peer, codec, rows, nullptr, threads);
    if (is_quantized(codec.type) && codec.type != TensorType::kQ8_0) {
      time_type(peer, codec, rows, g.data(), threads);
    }
  }
}

}  // namespace
}  // namespace hf2q

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: quantize_peer LIBGGML_BASE [THREADS] [SEEDS]\n");
    return 2;
  }
  const hf2q::Peer peer = hf2q::load_peer(argv[1]);
  const int differing = hf2q::compare(peer, argc > 3 ? std::stoi(argv[3]) : 4);
  hf2q::time_all(peer, argc > 2 ? std::stoi(argv[2]) : 1);
  return differing == 0 ? 0 : 1;
}
