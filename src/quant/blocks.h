#pragma once
// The block formats of GGUF tensors, byte by byte. Encoders, decoders and the matmul kernels all
// read a row as an array of these structs.
//
// A row is a whole number of blocks, back to back. Every field is little-endian; F16 fields hold
// the bit pattern (base/half.h) and are always finite in a valid file, any other bytes are legal.
// y[e] is the decoded element e of the block; products and sums round one at a time, in the
// grouping of the parentheses.
//
// Only structs and constants: this file is also compiled in files with instruction set flags.
// Source: the block structs of ggml, https://github.com/ggml-org/ggml (ggml-common.h).

#include <bit>
#include <cstdint>

namespace hf2q {

static_assert(std::endian::native == std::endian::little, "blocks are read in place");

constexpr int kBlock32 = 32;    // elements of a block of the Q4_0 family
constexpr int kBlock256 = 256;  // elements of a block of the K family

// ---- 32 elements ----
// Nibbles: qs[j], j in 0..15, holds element j in its low half and element j + 16 in its high half.

// y = (nibble - 8) * d
struct BlockQ4_0 {
  uint16_t d;  // F16
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_0) == 18);

// y = (nibble * d) + m
struct BlockQ4_1 {
  uint16_t d;  // F16
  uint16_t m;  // F16
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_1) == 20);

// q = nibble | bit e of qh << 4;  y = (q - 16) * d
struct BlockQ5_0 {
  uint16_t d;     // F16
  uint8_t qh[4];  // bit e % 8 of qh[e / 8]: fifth bit of element e
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_0) == 22);

// q as in Q5_0;  y = (q * d) + m
struct BlockQ5_1 {
  uint16_t d;  // F16
  uint16_t m;  // F16
  uint8_t qh[4];
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_1) == 24);

// y = q * d
struct BlockQ8_0 {
  uint16_t d;  // F16
  int8_t qs[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

// y = d * kIq4NlValues[nibble]
struct BlockIq4Nl {
  uint16_t d;  // F16
  uint8_t qs[16];
};
static_assert(sizeof(BlockIq4Nl) == 18);

constexpr int8_t kIq4NlValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};

// ---- 256 elements ----
// 2-bit plane: qs[32 * (e / 128) + e % 32] holds element e in the bits 2s, 2s + 1, where
// s = e % 128 / 32: a byte serves the elements l, l + 32, l + 64 and l + 96 of its half.
// 4-bit plane: qs[32 * (e / 64) + e % 32] holds element e in its low half if e % 64 < 32, else in
// its high half.
//
// packed_scales (Q4_K, Q5_K): eight 6-bit scales sc and eight 6-bit mins mn in k[0..11].
//   j < 4:  sc = k[j] & 63                              mn = k[j + 4] & 63
//   j >= 4: sc = (k[j + 4] & 15) | (k[j - 4] >> 6 << 4)   mn = (k[j + 4] >> 4) | (k[j] >> 6 << 4)

// q from the 2-bit plane, b = scales[e / 16];  y = (d * (b & 15)) * q - (dmin * (b >> 4))
struct BlockQ2K {
  uint8_t scales[16];
  uint8_t qs[64];
  uint16_t d;     // F16
  uint16_t dmin;  // F16
};
static_assert(sizeof(BlockQ2K) == 84);

// q = (2-bit plane) - (bit e / 32 of hmask[e % 32] ? 0 : 4), in -4..3
// The scale of j = e / 16 has six bits:
//   low four: scales[j % 8], its low half if j < 8, else its high half
//   high two: the bits 2 * (j / 4) and 2 * (j / 4) + 1 of scales[8 + j % 4]
// y = (d * (scale - 32)) * q
struct BlockQ3K {
  uint8_t hmask[32];
  uint8_t qs[64];
  uint8_t scales[12];
  uint16_t d;  // F16
};
static_assert(sizeof(BlockQ3K) == 110);

// q from the 4-bit plane, j = e / 32;  y = (d * sc[j]) * q - (dmin * mn[j])
struct BlockQ4K {
  uint16_t d;     // F16
  uint16_t dmin;  // F16
  uint8_t packed_scales[12];
  uint8_t qs[128];
};
static_assert(sizeof(BlockQ4K) == 144);

// q = (4-bit plane) | bit e / 32 of qh[e % 32] << 4;  y as in Q4_K
struct BlockQ5K {
  uint16_t d;     // F16
  uint16_t dmin;  // F16
  uint8_t packed_scales[12];
  uint8_t qh[32];
  uint8_t qs[128];
};
static_assert(sizeof(BlockQ5K) == 176);

// c = e / 128, s = e % 128 / 32, l = e % 32:
//   low four bits: ql[64 * c + 32 * (s % 2) + l], its low half if s < 2, else its high half
//   high two bits: qh[32 * c + l] in the bits 2s, 2s + 1
// q = low | high << 4;  y = (d * scales[e / 16]) * (q - 32)
struct BlockQ6K {
  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[16];
  uint16_t d;  // F16
};
static_assert(sizeof(BlockQ6K) == 210);

}  // namespace hf2q
