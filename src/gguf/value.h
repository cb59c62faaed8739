#pragma once
// One metadata value of a GGUF file, as it stands in the file.
//
//   scalar   little-endian, 1 to 8 bytes (bool: one byte, any non-zero is true)
//   string   u64 length, then that many bytes, UTF-8 by convention, no terminator
//   array    u32 element type, u64 count, elements back to back; no arrays of arrays

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hf2q {

enum class ValueType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// "u32", "string", ...; "unknown" for an id outside the enumeration.
std::string_view name_of(ValueType type);
// Bytes of a scalar of this type; 0 for strings, arrays and ids outside the enumeration.
size_t scalar_bytes(ValueType type);

// A checked value: `bytes` holds exactly what the type and count say. A view: it lives as long as
// the file or the writer that it comes from. The accessors give nothing when the stored type is
// another one; they never convert.
struct Value {
  ValueType type = ValueType::kU8;
  ValueType element = ValueType::kU8;  // arrays only
  uint64_t count = 1;                  // arrays: number of elements
  std::span<const std::byte> bytes;    // scalars and array elements as stored; strings with lengths

  std::optional<uint8_t> as_u8() const;
  std::optional<int8_t> as_i8() const;
  std::optional<uint16_t> as_u16() const;
  std::optional<int16_t> as_i16() const;
  std::optional<uint32_t> as_u32() const;
  std::optional<int32_t> as_i32() const;
  std::optional<uint64_t> as_u64() const;
  std::optional<int64_t> as_i64() const;
  std::optional<float> as_f32() const;
  std::optional<double> as_f64() const;
  std::optional<bool> as_bool() const;
  std::optional<std::string_view> as_string() const;
  // Arrays, in order. Integers: i32 or u32 elements below 2^31.
  std::optional<std::vector<int32_t>> as_integers() const;
  std::optional<std::vector<float>> as_f32s() const;
  std::optional<std::vector<bool>> as_bools() const;
  std::optional<std::vector<std::string_view>> as_strings() const;

  // Element i of an array, a scalar or a string, for code that takes any type (to print it). Walks
  // from the start when the elements are strings. CHECKs that this is an array and i < count.
  Value at(uint64_t i) const;
};

// The type in words: "u32", "array of 12 string".
std::string describe(const Value& value);

// The bytes that `count` strings, each after its length, take at the start of `bytes`; nothing when
// they run past its end.
std::optional<size_t> bytes_of_strings(std::span<const std::byte> bytes, uint64_t count);

}  // namespace hf2q
