#include "ops/matmul.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "ops/matmul_kernels.h"

namespace hf2q {
namespace {

#define HF2Q_ROWS(isa_, suffix, type_, name_) \
  {name_ "_" #suffix, TensorType::type_, Isa::isa_, matmul_##suffix<TensorType::type_>},
#define HF2Q_ALL_ROWS(isa, suffix)          \
  HF2Q_ROWS(isa, suffix, kF32, "f32")       \
  HF2Q_ROWS(isa, suffix, kF16, "f16")       \
  HF2Q_ROWS(isa, suffix, kBF16, "bf16")     \
  HF2Q_ROWS(isa, suffix, kQ4_0, "q4_0")     \
  HF2Q_ROWS(isa, suffix, kQ4_1, "q4_1")     \
  HF2Q_ROWS(isa, suffix, kQ5_0, "q5_0")     \
  HF2Q_ROWS(isa, suffix, kQ5_1, "q5_1")     \
  HF2Q_ROWS(isa, suffix, kQ8_0, "q8_0")     \
  HF2Q_ROWS(isa, suffix, kIQ4_NL, "iq4_nl") \
  HF2Q_ROWS(isa, suffix, kQ2_K, "q2_k")     \
  HF2Q_ROWS(isa, suffix, kQ3_K, "q3_k")     \
  HF2Q_ROWS(isa, suffix, kQ4_K, "q4_k")     \
  HF2Q_ROWS(isa, suffix, kQ5_K, "q5_k")     \
  HF2Q_ROWS(isa, suffix, kQ6_K, "q6_k")

// The only place that knows which kernel runs. Best first.
constexpr MatmulKernel kKernels[] = {
#if defined(__x86_64__)
    HF2Q_ALL_ROWS(kAvx512, avx512) HF2Q_ALL_ROWS(kAvx2, avx2)
#endif
        HF2Q_ALL_ROWS(kScalar, scalar)};

const MatmulKernel& select(Isa isa, TensorType type) {
  const auto* kernel =
      std::find_if(std::begin(kKernels), std::end(kKernels),
                   [&](const MatmulKernel& k) { return k.type == type && k.isa <= isa; });
  CHECK(kernel != std::end(kKernels));
  return *kernel;
}

// A work item is some tiles times one group of x rows. Both stay in a core's second-level cache
// while each tile meets the group: half a typical 512 KiB for the two together.
constexpr size_t kItemTileBytes = 64 << 10;
constexpr size_t kGroupBytes = 128 << 10;
constexpr size_t kItemsPerThread = 4;  // evens out threads that lose their processor

// How one job is cut into items: item = tile range * n_groups + group.
struct Plan {
  size_t n = 0;  // rows of x
  size_t n_tiles = 0;
  size_t tiles_per_item = 1;
  size_t rows_per_group = 1;
  size_t n_groups = 0;
  size_t n_items = 0;
};

size_t x_row_bytes(TensorType type, size_t cols) {
  return is_quantized(type) ? cols / 32 * sizeof(ActivationBlock) : cols * sizeof(float);
}

// A function of shapes and threads only; it never changes bits, since an item computes its outputs
// over all columns.
Plan plan_job(const MatmulJob& job, size_t m, size_t n_threads) {
  const PackedMatrix& w = *job.w;
  Plan plan;
  plan.n = job.rows.empty() ? m : job.rows.size();
  plan.n_tiles = (w.rows + kTileRows - 1) / kTileRows;
  plan.rows_per_group =
      std::clamp<size_t>(kGroupBytes / x_row_bytes(w.type, w.cols), 16, kMaxTileColumns);
  plan.n_groups = (plan.n + plan.rows_per_group - 1) / plan.rows_per_group;
  const size_t most = kItemTileBytes / tile_bytes(w.type, w.cols);
  const size_t even = plan.n_tiles * plan.n_groups / (n_threads * kItemsPerThread);
  plan.tiles_per_item = std::max<size_t>(1, std::min(most, even));
  plan.n_items = (plan.n_tiles + plan.tiles_per_item - 1) / plan.tiles_per_item * plan.n_groups;
  return plan;
}

// Fills xs with the addresses of `n` rows from entry `first` of the job on.
void find_rows(const Activations& x, const MatmulJob& job, size_t first, size_t n,
               const void** xs) {
  const bool quantized = is_quantized(job.w->type);
  for (size_t i = 0; i < n; ++i) {
    const size_t row = job.rows.empty() ? first + i : job.rows[first + i];
    xs[i] = quantized ? static_cast<const void*>(x.blocks + row * (x.cols / 32))
                      : static_cast<const void*>(x.x + row * x.cols);
  }
}

void run_item(const MatmulKernel& kernel, const Activations& x, const MatmulJob& job,
              const Plan& plan, size_t item) {
  const PackedMatrix& w = *job.w;
  const size_t first_x = item % plan.n_groups * plan.rows_per_group;
  const size_t n = std::min(plan.rows_per_group, plan.n - first_x);
  const size_t first_tile = item / plan.n_groups * plan.tiles_per_item;
  const size_t last_tile = std::min(first_tile + plan.tiles_per_item, plan.n_tiles);
  const size_t bytes = tile_bytes(w.type, w.cols);
  const void* xs[kMaxTileColumns];
  alignas(64) float y[kMaxTileColumns * kTileRows];
  find_rows(x, job, first_x, n, xs);
  for (size_t tile = first_tile; tile < last_tile; ++tile) {
    kernel.run({w.data + tile * bytes, w.cols, xs, n, y});
    const size_t first_row = tile * kTileRows;
    const size_t n_rows = std::min(kTileRows, w.rows - first_row);
    for (size_t i = 0; i < n; ++i) {
      std::memcpy(job.y + (first_x + i) * job.y_stride + first_row, y + i * kTileRows,
                  n_rows * sizeof(float));
    }
  }
}

void check_job(const Activations& x, const MatmulJob& job) {
  CHECK(job.w != nullptr && job.w->cols == x.cols && job.y_stride >= job.w->rows);
  CHECK(reinterpret_cast<uintptr_t>(job.w->data) % 64 == 0);
  CHECK(is_quantized(job.w->type) ? x.blocks != nullptr : x.x != nullptr);
  CHECK(std::all_of(job.rows.begin(), job.rows.end(), [&](uint32_t r) { return r < x.m; }));
}

}  // namespace

std::span<const MatmulKernel> matmul_kernels() {
  return kKernels;
}

void matmul(Exec& exec, const Activations& x, std::span<const MatmulJob> jobs) {
  if (x.m == 0) return;
  size_t n_items = 0;
  for (const MatmulJob& job : jobs) {
    check_job(x, job);
    n_items += plan_job(job, x.m, exec.n_threads()).n_items;
  }
  exec.parallel_for(n_items, 1, [&](size_t item, size_t) {
    for (const MatmulJob& job : jobs) {
      const Plan plan = plan_job(job, x.m, exec.n_threads());
      if (item < plan.n_items) {
        return run_item(select(exec.isa(), job.w->type), x, job, plan, item);
      }
      item -= plan.n_items;
    }
  });
}

}  // namespace hf2q
