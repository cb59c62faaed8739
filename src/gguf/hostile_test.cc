// Files made to break a reader: each must give an error that says what is wrong, and nothing else.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "gguf/reader.h"
#include "gguf/test_file.h"

namespace hf2q {
namespace {

using namespace test;

constexpr uint64_t kMax = ~uint64_t{0};
constexpr uint64_t k2_31 = uint64_t{1} << 31, k2_32 = uint64_t{1} << 32, k2_40 = uint64_t{1} << 40,
                   k2_42 = uint64_t{1} << 42, k2_60 = uint64_t{1} << 60, k2_61 = uint64_t{1} << 61,
                   k2_62 = uint64_t{1} << 62, k2_63 = uint64_t{1} << 63;

struct Hostile {
  std::string name;
  std::vector<std::byte> bytes;
  std::string message;  // what the error must say, behind the name of the file
};
void PrintTo(const Hostile& hostile, std::ostream* out) {
  *out << hostile.name;
}

Hostile header(const char* name, const Bytes& bytes, const std::string& message) {
  return {name, bytes.data, message};
}

// `n_tensors` and `n_keys` before 200 zeros.
Hostile counts(const std::string& name, uint64_t n_tensors, uint64_t n_keys,
               const std::string& message) {
  const TestFile file = {.n_tensors = n_tensors, .n_keys = n_keys, .keys = Bytes().fill(200, 0)};
  return {name, file.bytes(), "header: " + message};
}

Hostile value(const std::string& name, uint32_t type, const Bytes& value,
              const std::string& message) {
  return {name, TestFile().key("k", type, value).bytes(), "key 'k': " + message};
}

Hostile key_name(const char* name, std::string_view key, const std::string& message) {
  return {name, TestFile().key(key, kU32, bytes_of(1U)).bytes(), "key number 0: " + message};
}

Hostile alignment(const std::string& name, uint32_t type, const Bytes& value,
                  const std::string& message) {
  TestFile file;
  file.key("general.alignment", type, value).tensor("t", {1}, kTypeI8, 0).payload(64, 1);
  return {name, file.bytes(), "key 'general.alignment': " + message};
}

// A tensor; with one dimension its data begins at 64. 4096 bytes of data follow.
Hostile tensor(const std::string& name, std::initializer_list<uint64_t> dims, uint32_t type,
               const std::string& message) {
  return {name, TestFile().tensor("t", dims, type, 0).payload(4096, 1).bytes(),
          "tensor 't': " + message};
}

Hostile tensor_name(const char* name, std::string_view tensor, const std::string& message) {
  return {name, TestFile().tensor(tensor, {1}, kTypeI8, 0).payload(1, 1).bytes(),
          "tensor number 0: " + message};
}

// Two tensors that take 32 bytes each, padding included.
Hostile offsets(const char* name, uint64_t first, uint64_t second, const std::string& message) {
  TestFile file;
  file.tensor("a", {3}, kTypeI8, first).tensor("b", {3}, kTypeI8, second).payload(64, 1);
  return {name, file.bytes(), message};
}

std::vector<Hostile> headers() {
  std::vector<Hostile> rows = {
      header("empty", {}, "header: magic \"GGUF\" of 4 bytes expected, the file ends after 0"),
      header("magic_only", Bytes().text("GGUF"), "header: version of 4 bytes expected"),
      header("magic_and_version", Bytes().text("GGUF").scalar(3U),
             "header: number of tensors of 8 bytes expected, the file ends after 0"),
      header("bad_magic", Bytes().text("GGUX").fill(20, 0),
             "header: magic \"GGUF\" (47 47 55 46) expected, found 47 47 55 58"),
      header("big_endian", Bytes().text("GGUF").scalar(0x03000000U).fill(16, 0),
             "wrong endianness: little-endian expected, the version reads 0x03000000"),
      counts("tensors_beyond_the_file", 1 << 20, 1,
             "1048576 tensors and 1 keys take at least 34603022 bytes, the file has 200 more"),
      counts("keys_beyond_the_file", 0, 1 << 20,
             "0 tensors and 1048576 keys take at least 14680064 bytes, the file has 200 more"),
  };
  for (const uint32_t version : {0U, 1U, 4U}) {
    rows.push_back({fmt::format("version_{}", version), TestFile{.version = version}.bytes(),
                    fmt::format("GGUF version 2 or 3 expected, found {}", version)});
  }
  const char* const cap = "at most 1048576 tensors and keys expected";
  for (const uint64_t count : {(uint64_t{1} << 20) + 1, k2_32, k2_60, k2_63, kMax}) {
    rows.push_back(counts(fmt::format("tensors_{}", count), count, 1, cap));
    rows.push_back(counts(fmt::format("keys_{}", count), 0, count, cap));
  }
  return rows;
}

std::vector<Hostile> values() {
  const Bytes zeros = Bytes().fill(64, 0);
  std::vector<Hostile> rows = {
      value("type_13", 13, zeros, "type 0 to 12 expected, found 13"),
      value("type_256", 256, zeros, "type 0 to 12 expected, found 256"),
      value("array_of_arrays", kArray, array_bytes(kArray, 1, zeros),
            "element type 0 to 12, not 9 (array), expected, found 9"),
      value("array_of_type_200", kArray, array_bytes(200, 1, zeros),
            "element type 0 to 12, not 9 (array), expected, found 200"),
      value("array_beyond_the_file", kArray, array_bytes(kU64, 1 << 30, zeros),
            "value of 8589934592 bytes expected, the file ends after 64"),
      value("strings_beyond_the_file", kArray, array_bytes(kString, 1 << 30, zeros),
            "1073741824 string(s) expected, they run past the end of the file, 64 bytes on"),
  };
  for (const uint64_t length : {uint64_t{6}, k2_40, k2_63, kMax - 7, kMax}) {
    const Bytes string = Bytes().scalar(length).text("12345");
    rows.push_back(value(fmt::format("string_of_{}", length), kString, string,
                         "1 string(s) expected, they run past the end of the file, 13 bytes on"));
    rows.push_back(value(fmt::format("string_of_{}_in_an_array", length), kArray,
                         array_bytes(kString, 2, Bytes().string("a").raw(string.data)),
                         "2 string(s) expected, they run past the end of the file, 22 bytes on"));
  }
  for (const uint64_t count : {(uint64_t{1} << 30) + 1, k2_61, kMax}) {
    rows.push_back(value(fmt::format("array_of_{}", count), kArray, array_bytes(kU64, count, zeros),
                         fmt::format("at most 1073741824 elements expected, found {}", count)));
  }
  return rows;
}

std::vector<Hostile> keys() {
  TestFile huge = {.n_keys = 1, .keys = Bytes().scalar(kMax).fill(40, 'k')};
  TestFile duplicate;
  duplicate.key("a", kU32, bytes_of(1U)).key("b", kU32, bytes_of(1U)).key("a", kI32, bytes_of(1));
  TestFile shard;
  shard.key("split.no", kU16, bytes_of<uint16_t>(0)).key("split.tensors.count", kI32, bytes_of(0));
  shard.key("split.count", kU16, bytes_of<uint16_t>(2));
  std::vector<Hostile> rows = {
      key_name("empty_key", "", "name of 1 to 65535 bytes expected, found 0"),
      key_name("long_key", std::string(65536, 'k'), "name of 1 to 65535 bytes expected, found 655"),
      key_name("newline_in_key", "a\nb", "name of printable ASCII expected, byte 1 is 0x0a"),
      {"huge_key", huge.bytes(),
       "key number 0: name of 1 to 65535 bytes expected, found 184467440"},
      {"duplicate_key", duplicate.bytes(),
       "key 'a': unique keys expected, entries 0 and 2 are equal"},
      {"shard_in_memory", shard.bytes(), "a whole model expected, this is shard 1 of 2"},
      alignment("alignment_u64", kU64, bytes_of(uint64_t{32}), "u32 expected, found u64"),
      alignment("alignment_string", kString, string_bytes("32"), "u32 expected, found string"),
      alignment("alignment_array", kArray, array_bytes(kU32, 1, bytes_of(32U)),
                "u32 expected, found array of 1 u32"),
  };
  for (const uint32_t value : {0U, 3U, 48U, 1U << 21, 1U << 31}) {
    rows.push_back(
        alignment(fmt::format("alignment_{}", value), kU32, bytes_of(value),
                  fmt::format("a power of two up to 1048576 expected, found {}", value)));
  }
  return rows;
}

std::vector<Hostile> shapes() {
  const std::string elements = "fewer than 2^63 elements expected, found shape ";
  const TestFile many = {.n_tensors = 1, .tensors = Bytes().string("t").scalar(~0U).fill(64, 1)};
  std::vector<Hostile> rows = {
      tensor("no_dimensions", {}, kTypeI8, "1 to 4 dimensions expected, found 0"),
      tensor("five_dimensions", {1, 1, 1, 1, 1}, kTypeI8, "1 to 4 dimensions expected, found 5"),
      {"many_dimensions", many.bytes(), "tensor 't': 1 to 4 dimensions expected, found 4294967295"},
      tensor("zero_dimension", {1, 0}, kTypeI8, "dimension 1 of 1 or more expected, found 0"),
      tensor("negative_dimension", {kMax}, kTypeI8, elements + "[18446744073709551615]"),
      tensor("product_wraps_2", {k2_32, k2_32}, kTypeI8, elements + "[4294967296, 4294967296]"),
      tensor("product_wraps_to_0", {k2_62, 4}, kTypeI8, elements),
      tensor("product_wraps_4", {k2_31, k2_31, k2_31, k2_31}, kTypeI8, elements),
      tensor("elements_2_63", {k2_62, 2}, kTypeI8, elements),
      tensor("dimension_2_63", {k2_63}, kTypeI8, elements),
      tensor("bytes_wrap", {k2_62}, kTypeF32, "fewer than 2^64 bytes expected"),
      tensor("round_up_wraps", {k2_61 - 1}, kTypeI64, "data at 0 ends past 2^64"),
      tensor("dimension_2_42", {k2_42 + 1}, kTypeI8,
             "4398046511105 bytes of data expected at 64, the file has 4160 bytes"),
      tensor("part_of_a_block", {33}, kTypeQ8_0,
             "rows of a multiple of 32 elements expected for q8_0, found 33"),
  };
  for (const uint32_t type :
       {4U, 5U, kTypeQ8_1, kTypeQ8_K, 31U, 32U, 33U, 36U, 37U, 38U, 43U, ~0U}) {
    rows.push_back(tensor(fmt::format("tensor_type_{}", type), {256}, type,
                          fmt::format("the id of a type for weights expected, found {}", type)));
  }
  return rows;
}

std::vector<Hostile> names() {
  TestFile duplicate;
  duplicate.tensor("t", {3}, kTypeI8, 0).tensor("t", {3}, kTypeF32, 32).payload(64, 1);
  return {
      tensor_name("empty_name", "", "name of 1 to 63 bytes expected, found 0"),
      tensor_name("long_name", std::string(64, 'n'), "name of 1 to 63 bytes expected, found 64"),
      tensor_name("nul_in_name", {"a\0b", 3}, "name of printable ASCII expected, byte 1 is 0x00"),
      tensor_name("newline_in_name", "a\n", "name of printable ASCII expected, byte 1 is 0x0a"),
      tensor_name("invalid_utf8", "\xff", "name of printable ASCII expected, byte 0 is 0xff"),
      {"duplicate_tensor", duplicate.bytes(),
       "tensor 't': unique names expected, tensors 0 and 1 are equal"},
  };
}

std::vector<Hostile> data() {
  TestFile no_padding = {.alignment = 1};
  no_padding.tensor("t", {3}, kTypeI8, 0).payload(3, 1);
  TestFile sum;  // of the sizes: 2^64 with the fourth
  for (uint64_t i = 0; i < 4; ++i) {
    sum.tensor(std::string(1, static_cast<char>('a' + i)), {k2_62}, kTypeI8, i * k2_62);
  }
  TestFile with_header;  // the sum of the sizes is 2^64 - 64, the header takes 96 bytes
  with_header.tensor("a", {k2_63 - 32}, kTypeI8, 0).tensor("b", {k2_63 - 32}, kTypeI8, k2_63 - 32);
  return {
      offsets("first_offset", 32, 64, "tensor 'a': offset 0 expected, found 32"),
      offsets("gap", 0, 64, "tensor 'b': offset 32 expected, found 64"),
      offsets("overlap", 0, 0, "tensor 'b': offset 32 expected, found 0"),
      offsets("unaligned", 0, 3, "tensor 'b': offset 32 expected, found 3"),
      offsets("out_of_order", 32, 0, "tensor 'a': offset 0 expected, found 32"),
      offsets("offset_past_the_end", 0, kMax, "tensor 'b': offset 32 expected, found 18446744073"),
      tensor("data_past_the_end", {4097}, kTypeI8,
             "4097 bytes of data expected at 64, the file has 4160 bytes"),
      {"no_padding_before_data", no_padding.bytes(),
       "tensor 't': 3 bytes of data expected at 64, the file has 60 bytes"},
      {"sum_wraps", sum.payload(64, 1).bytes(),
       "tensor 'd': data at 13835058055282163712 ends past 2^64"},
      {"sum_with_header_wraps", with_header.payload(64, 1).bytes(),
       "tensor 'a': 9223372036854775776 bytes of data expected at 96, the file has 160 bytes"},
  };
}

std::vector<Hostile> all_files() {
  std::vector<Hostile> all;
  for (auto* part : {headers, values, keys, shapes, names, data}) {
    for (Hostile& hostile : part()) all.push_back(std::move(hostile));
  }
  return all;
}

class HostileGguf : public testing::TestWithParam<Hostile> {};

TEST_P(HostileGguf, IsRefused) {
  const auto parsed = GgufFile::parse(GetParam().bytes, "test.gguf");
  ASSERT_FALSE(parsed.ok());
  EXPECT_THAT(parsed.error().message, testing::StartsWith("test.gguf: " + GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(All, HostileGguf, testing::ValuesIn(all_files()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace hf2q
