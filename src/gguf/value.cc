#include "gguf/value.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace hf2q {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

struct TypeInfo {
  std::string_view name;
  size_t bytes;
};
constexpr std::array<TypeInfo, 13> kTypes = {{
    {"u8", 1},
    {"i8", 1},
    {"u16", 2},
    {"i16", 2},
    {"u32", 4},
    {"i32", 4},
    {"f32", 4},
    {"bool", 1},
    {"string", 0},
    {"array", 0},
    {"u64", 8},
    {"i64", 8},
    {"f64", 8},
}};

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <class T>
std::optional<T> scalar(const Value& value, ValueType type) {
  if (value.type != type) return std::nullopt;
  return load<T>(value.bytes.data());
}

template <class T>
std::optional<std::vector<T>> array(const Value& value, ValueType element) {
  if (value.type != ValueType::kArray || value.element != element) return std::nullopt;
  std::vector<T> elements(value.count);
  if (!elements.empty()) std::memcpy(elements.data(), value.bytes.data(), value.count * sizeof(T));
  return elements;
}

// The string whose length stands at `at`.
std::string_view string_at(const std::byte* at) {
  return {reinterpret_cast<const char*>(at) + sizeof(uint64_t), load<uint64_t>(at)};
}

}  // namespace

std::string_view name_of(ValueType type) {
  const auto id = static_cast<uint32_t>(type);
  return id < kTypes.size() ? kTypes[id].name : "unknown";
}

size_t scalar_bytes(ValueType type) {
  const auto id = static_cast<uint32_t>(type);
  return id < kTypes.size() ? kTypes[id].bytes : 0;
}

std::optional<uint8_t> Value::as_u8() const {
  return scalar<uint8_t>(*this, ValueType::kU8);
}
std::optional<int8_t> Value::as_i8() const {
  return scalar<int8_t>(*this, ValueType::kI8);
}
std::optional<uint16_t> Value::as_u16() const {
  return scalar<uint16_t>(*this, ValueType::kU16);
}
std::optional<int16_t> Value::as_i16() const {
  return scalar<int16_t>(*this, ValueType::kI16);
}
std::optional<uint32_t> Value::as_u32() const {
  return scalar<uint32_t>(*this, ValueType::kU32);
}
std::optional<int32_t> Value::as_i32() const {
  return scalar<int32_t>(*this, ValueType::kI32);
}
std::optional<uint64_t> Value::as_u64() const {
  return scalar<uint64_t>(*this, ValueType::kU64);
}
std::optional<int64_t> Value::as_i64() const {
  return scalar<int64_t>(*this, ValueType::kI64);
}
std::optional<float> Value::as_f32() const {
  return scalar<float>(*this, ValueType::kF32);
}
std::optional<double> Value::as_f64() const {
  return scalar<double>(*this, ValueType::kF64);
}

std::optional<bool> Value::as_bool() const {
  if (type != ValueType::kBool) return std::nullopt;
  return bytes[0] != std::byte{0};
}

std::optional<std::string_view> Value::as_string() const {
  if (type != ValueType::kString) return std::nullopt;
  return string_at(bytes.data());
}

std::optional<std::vector<int32_t>> Value::as_integers() const {
  if (element != ValueType::kU32) return array<int32_t>(*this, ValueType::kI32);
  std::optional<std::vector<int32_t>> integers = array<int32_t>(*this, ValueType::kU32);
  if (!integers) return std::nullopt;
  for (const int32_t i : *integers) {
    if (i < 0) return std::nullopt;  // 2^31 or more as the u32 that it is
  }
  return integers;
}

std::optional<std::vector<float>> Value::as_f32s() const {
  return array<float>(*this, ValueType::kF32);
}

std::optional<std::vector<bool>> Value::as_bools() const {
  if (type != ValueType::kArray || element != ValueType::kBool) return std::nullopt;
  std::vector<bool> bools(count);
  for (size_t i = 0; i < count; ++i) bools[i] = bytes[i] != std::byte{0};
  return bools;
}

std::optional<std::vector<std::string_view>> Value::as_strings() const {
  if (type != ValueType::kArray || element != ValueType::kString) return std::nullopt;
  std::vector<std::string_view> strings(count);
  const std::byte* at = bytes.data();
  for (std::string_view& string : strings) {
    string = string_at(at);
    at += sizeof(uint64_t) + string.size();
  }
  return strings;
}

Value Value::at(uint64_t i) const {
  CHECK(type == ValueType::kArray && i < count);
  Value result;
  result.type = element;
  if (element != ValueType::kString) {
    const size_t size = scalar_bytes(element);
    result.bytes = bytes.subspan(i * size, size);
    return result;
  }
  const size_t begin = *bytes_of_strings(bytes, i);
  result.bytes = bytes.subspan(begin, *bytes_of_strings(bytes.subspan(begin), 1));
  return result;
}

std::string describe(const Value& value) {
  if (value.type != ValueType::kArray) return std::string(name_of(value.type));
  return fmt::format("array of {} {}", value.count, name_of(value.element));
}

std::optional<size_t> bytes_of_strings(std::span<const std::byte> bytes, uint64_t count) {
  size_t begin = 0;
  for (uint64_t i = 0; i < count; ++i) {
    if (bytes.size() - begin < sizeof(uint64_t)) return std::nullopt;
    const auto length = load<uint64_t>(bytes.data() + begin);
    begin += sizeof(uint64_t);
    if (length > bytes.size() - begin) return std::nullopt;
    begin += length;
  }
  return begin;
}

}  // namespace hf2q
