#pragma once
// GGUF bytes made by hand, without the writer, well-formed or not; and a visit to everything that a
// parsed file offers. For tests, benchmarks and fuzzing.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/reader.h"
#include "gguf/value.h"

namespace hf2q::test {

// Little-endian bytes, appended.
struct Bytes {
  std::vector<std::byte> data = {};

  Bytes& raw(std::span<const std::byte> bytes) {
    const size_t end = data.size();
    data.resize(end + bytes.size());
    std::copy(bytes.begin(), bytes.end(), data.begin() + static_cast<ptrdiff_t>(end));
    return *this;
  }
  Bytes& text(std::string_view text) { return raw(std::as_bytes(std::span(text))); }
  template <class T>
  Bytes& scalar(T value) {
    return raw(std::as_bytes(std::span(&value, 1)));
  }
  Bytes& string(std::string_view text) { return scalar(uint64_t{text.size()}).text(text); }
  Bytes& fill(size_t count, int value) {
    data.insert(data.end(), count, static_cast<std::byte>(value));
    return *this;
  }
  Bytes& pad(size_t alignment) {
    while (data.size() % alignment != 0) data.push_back(std::byte{0});
    return *this;
  }
};

template <class T>
Bytes bytes_of(T value) {
  return Bytes().scalar(value);
}
inline Bytes string_bytes(std::string_view text) {
  return Bytes().string(text);
}
inline Bytes array_bytes(uint32_t element, uint64_t count, const Bytes& elements = {}) {
  return Bytes().scalar(element).scalar(count).raw(elements.data);
}

// A file in the making. Counts follow the entries; `data` is whatever is given.
struct TestFile {
  uint32_t version = 3;
  uint64_t n_tensors = 0;
  uint64_t n_keys = 0;
  size_t alignment = 32;
  Bytes keys = {};
  Bytes tensors = {};
  Bytes data = {};

  TestFile& key(std::string_view name, uint32_t type, const Bytes& value) {
    ++n_keys;
    keys.string(name).scalar(type).raw(value.data);
    return *this;
  }
  TestFile& tensor(std::string_view name, std::initializer_list<uint64_t> dims, uint32_t type,
                   uint64_t offset) {
    ++n_tensors;
    tensors.string(name).scalar(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) tensors.scalar(dim);
    tensors.scalar(type).scalar(offset);
    return *this;
  }
  TestFile& payload(size_t count, int value) {
    data.fill(count, value).pad(alignment);
    return *this;
  }
  std::vector<std::byte> bytes() const {
    Bytes file;
    file.text("GGUF").scalar(version).scalar(n_tensors).scalar(n_keys);
    file.raw(keys.data).raw(tensors.data);
    if (!data.data.empty()) file.pad(alignment).raw(data.data);
    return file.data;
  }
};

// Ids of the format's tables, as numbers.
constexpr uint32_t kU8 = 0, kI8 = 1, kU16 = 2, kI16 = 3, kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7,
                   kString = 8, kArray = 9, kU64 = 10, kI64 = 11, kF64 = 12;
constexpr uint32_t kTypeF32 = 0, kTypeQ8_0 = 8, kTypeQ8_1 = 9, kTypeQ4_K = 12, kTypeQ8_K = 15,
                   kTypeI8 = 24, kTypeI64 = 27;

// The smallest complete file: one string, one array, one Q8_0 tensor [32, 2] of bytes 0x55. The
// header ends at 153, the data begins at 160.
inline Bytes example_file() {
  Bytes file;
  file.text("GGUF").text({"\3\0\0\0", 4}).text({"\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 16});
  file.text({"\x14\0\0\0\0\0\0\0", 8}).text("general.architecture").text({"\x08\0\0\0", 4});
  file.text({"\6\0\0\0\0\0\0\0", 8}).text("gemma4");
  file.text({"\3\0\0\0\0\0\0\0", 8}).text("x.a").text({"\x09\0\0\0\5\0\0\0\2\0\0\0\0\0\0\0", 16});
  file.text({"\xff\xff\xff\xff\2\0\0\0", 8});
  file.text({"\x08\0\0\0\0\0\0\0", 8}).text("t.weight").text({"\2\0\0\0", 4});
  file.text({"\x20\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0\0\0\0\0", 28});
  return file.fill(7, 0).fill(68, 0x55).fill(28, 0);
}

// A value of every type, arrays of every type, and two tensors.
inline TestFile good_file() {
  TestFile file;
  file.key("u8", kU8, bytes_of<uint8_t>(200)).key("i8", kI8, bytes_of<int8_t>(-100));
  file.key("u16", kU16, bytes_of<uint16_t>(60000)).key("i16", kI16, bytes_of<int16_t>(-30000));
  file.key("u32", kU32, bytes_of(4000000000U)).key("i32", kI32, bytes_of(-2000000000));
  file.key("u64", kU64, bytes_of(~uint64_t{0})).key("i64", kI64, bytes_of(int64_t{-1} << 63));
  file.key("f32", kF32, bytes_of(1.5F)).key("f64", kF64, bytes_of(-2.25));
  file.key("bool", kBool, bytes_of<uint8_t>(7)).key("string", kString, string_bytes("h\u00e9llo"));
  file.key("empty", kString, string_bytes(""));
  file.key("i32s", kArray, array_bytes(kI32, 2, Bytes().scalar(-1).scalar(2)));
  file.key("u32s", kArray, array_bytes(kU32, 2, Bytes().scalar(1U).scalar(0x7FFFFFFFU)));
  file.key("big u32s", kArray, array_bytes(kU32, 1, bytes_of(0x80000000U)));
  file.key("f32s", kArray, array_bytes(kF32, 2, Bytes().scalar(0.5F).scalar(-1000.0F)));
  file.key("bools", kArray, array_bytes(kBool, 3, Bytes().text({"\0\1\2", 3})));
  file.key("strings", kArray, array_bytes(kString, 3, Bytes().string("a").string("").string("bc")));
  file.key("none", kArray, array_bytes(kString, 0));
  file.key("u64s", kArray, array_bytes(kU64, 1, bytes_of(~uint64_t{0})));
  file.tensor("a.weight", {256, 3}, kTypeQ4_K, 0).payload(3 * 144, 0x11);
  file.tensor("b.bias", {5}, kTypeF32, 448).payload(20, 0x22);
  return file;
}

// Every accessor of `value`; returns how many of them gave something.
inline int touch(const Value& value) {
  int given = 0;
  given += value.as_u8().has_value() + value.as_i8().has_value() + value.as_u16().has_value();
  given += value.as_i16().has_value() + value.as_u32().has_value() + value.as_i32().has_value();
  given += value.as_u64().has_value() + value.as_i64().has_value() + value.as_f32().has_value();
  given += value.as_f64().has_value() + value.as_bool().has_value();
  given += value.as_f32s().has_value() + value.as_bools().has_value();
  given += value.as_integers().has_value();
  if (const auto text = value.as_string()) given += std::string(*text).size() == text->size();
  if (const auto strings = value.as_strings()) {
    ++given;
    for (const std::string_view text : *strings) given -= std::string(text).size() != text.size();
  }
  if (value.type == ValueType::kArray && value.count > 0) touch(value.at(value.count - 1));
  return given;
}

// Reads every value, and the first and last byte of every tensor; false when the file's own lookups
// disagree with its lists.
inline bool touch(const GgufFile& file) {
  bool consistent = true;
  for (const auto& [key, value] : file.metadata()) {
    consistent &= file.find(key) == &value && touch(value) <= 1 && !describe(value).empty();
  }
  volatile std::byte sink = {};
  for (const GgufTensor& tensor : file.tensors()) {
    consistent &= file.find_tensor(tensor.name) == &tensor && !tensor.data.empty();
    sink = tensor.data.front();
    sink = tensor.data.back();
  }
  static_cast<void>(sink);
  return consistent;
}

}  // namespace hf2q::test
