#pragma once
// The instruction sets that kernels are written for, and the best one of this machine.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace hf2q {

// Ascending: a machine that runs a row of a kernel table runs every row of a lower value too.
// A table holds rows of the architecture it was compiled for only.
enum class Isa : uint8_t {
  kScalar,  // plain C++: the reference, everywhere
  kAvx2,    // AVX2, FMA, F16C, BMI2
  kAvx512,  // AVX-512 F, BW, VL, DQ and VNNI
};

// The best of this machine; the processor is asked once.
Isa cpu_isa();

std::string_view name_of(Isa isa);  // lower case: "avx2"
std::optional<Isa> parse_isa(std::string_view name);
// kScalar up to cpu_isa(), ascending: what tests run through.
std::span<const Isa> usable_isas();

}  // namespace hf2q
