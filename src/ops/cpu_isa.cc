#include "ops/cpu_isa.h"

#include <cstddef>

namespace hf2q {
namespace {

constexpr Isa kIsas[] = {Isa::kScalar, Isa::kAvx2, Isa::kAvx512};
constexpr std::string_view kNames[] = {"scalar", "avx2", "avx512"};

Isa ask_cpu() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  // Every processor with AVX2 and BMI2 has F16C, which not all compilers can ask for.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi2");
  if (!avx2) return Isa::kScalar;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vnni");
  return avx512 ? Isa::kAvx512 : Isa::kAvx2;
#else
  return Isa::kScalar;
#endif
}

}  // namespace

Isa cpu_isa() {
  static const Isa isa = ask_cpu();
  return isa;
}

std::string_view name_of(Isa isa) {
  return kNames[static_cast<size_t>(isa)];
}

std::optional<Isa> parse_isa(std::string_view name) {
  for (Isa isa : kIsas) {
    if (name_of(isa) == name) return isa;
  }
  return std::nullopt;
}

std::span<const Isa> usable_isas() {
  return std::span(kIsas).first(static_cast<size_t>(cpu_isa()) + 1);
}

}  // namespace hf2q
