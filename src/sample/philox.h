#pragma once
// Random numbers as a pure function of a key and a counter: nothing to carry along, save or
// restore. Philox-4x32 with 10 rounds. A round maps (c0, c1, c2, c3) under the key (k0, k1) to
//   (hi(M1 c2) ^ c1 ^ k0, lo(M1 c2), hi(M0 c0) ^ c3 ^ k1, lo(M0 c0)),
// hi and lo being the halves of the 64-bit product; then k0 += W0, k1 += W1.
// Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011).

#include <array>
#include <cstdint>

namespace hf2q {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

inline PhiloxCounter philox_4x32_10(PhiloxCounter c, PhiloxKey k) {
  constexpr uint64_t kM0 = 0xD2511F53;
  constexpr uint64_t kM1 = 0xCD9E8D57;
  constexpr uint32_t kW0 = 0x9E3779B9;
  constexpr uint32_t kW1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = kM0 * c[0];
    const uint64_t p1 = kM1 * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
    k = {k[0] + kW0, k[1] + kW1};
  }
  return c;
}

// The number in [0, 1), a multiple of 2^-53, that chooses the token `output` (counted from 0) of
// answer `choice` of a request with this seed.
inline double uniform_at(uint64_t seed, uint32_t choice, uint64_t output) {
  const PhiloxCounter counter = {static_cast<uint32_t>(output), static_cast<uint32_t>(output >> 32),
                                 choice, 0};
  const PhiloxKey key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  const PhiloxCounter words = philox_4x32_10(counter, key);
  return static_cast<double>((uint64_t{words[0]} << 32 | words[1]) >> 11) * 0x1p-53;
}

}  // namespace hf2q
