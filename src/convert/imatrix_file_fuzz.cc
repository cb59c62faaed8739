// Parses arbitrary bytes as an importance matrix, of either form, and uses what was found. Seeds:
// tests/corpus/imatrix.

#include <cstddef>
#include <cstdint>

#include "convert/imatrix_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto parsed =
      hf2q::parse_imatrix({reinterpret_cast<const std::byte*>(data), size}, "fuzz.imatrix");
  if (!parsed.ok()) return 0;
  for (const auto& [weight, entry] : parsed.value().entries) {
    const auto importance = hf2q::importance_for(parsed.value(), weight, entry.sums.size(), 1);
    if (!importance.ok() || importance.value().size() != entry.sums.size()) __builtin_trap();
  }
  return 0;
}
