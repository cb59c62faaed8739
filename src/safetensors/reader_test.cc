#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "safetensors/safetensors.h"
#include "safetensors/test_files.h"

namespace hf2q {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::StartsWith;

// Two tensors, the second one first in the header, and spaces up to a multiple of 8.
constexpr std::string_view kHeader =
    R"({"b.weight":{"dtype":"F32","shape":[1,2],"data_offsets":[2,10]},)"
    R"("__metadata__":{"format":"pt","made by":"h\u0061nd"},)"
    R"("a":{"shape":[],"data_offsets":[0,2],"dtype":"BF16"}}      )";
constexpr std::string_view kData = "AABBBBbbbb";

TEST(SafetensorsReader, ReadsAFileSpelledOutByHand) {
  const std::string bytes = file_with(kHeader, kData);
  ASSERT_EQ(kHeader.size() % 8, 0U);
  auto file = parse_bytes(bytes);
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_EQ(file.value().tensors().size(), 2U);
  const SourceTensor& a = file.value().tensors()[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.dtype, Dtype::kBF16);
  EXPECT_THAT(a.shape, IsEmpty());
  EXPECT_EQ(a.n_elements(), 1U);
  EXPECT_EQ(text_of(a.data), "AA");
  const SourceTensor& b = file.value().tensors()[1];
  EXPECT_EQ(b.name, "b.weight");
  EXPECT_EQ(b.dtype, Dtype::kF32);
  EXPECT_THAT(b.shape, ElementsAre(1, 2));
  EXPECT_EQ(text_of(b.data), "BBBBbbbb");
  EXPECT_EQ(reinterpret_cast<const char*>(b.data.data()), bytes.data() + bytes.size() - 8);
  EXPECT_THAT(file.value().metadata(), ElementsAre(Pair("format", "pt"), Pair("made by", "hand")));
  EXPECT_EQ(file.value().file(), nullptr);
}

TEST(SafetensorsReader, FindsTensorsByNameAfterTheFileHasMoved) {
  const std::string bytes = file_with(kHeader, kData);
  auto file = parse_bytes(bytes);
  ASSERT_TRUE(file.ok());
  const SafetensorsFile moved = std::move(file.value());
  EXPECT_EQ(moved.find("a"), moved.tensors().data());
  EXPECT_EQ(moved.find("b.weight"), moved.tensors().data() + 1);
  EXPECT_EQ(moved.find("b"), nullptr);
  EXPECT_EQ(moved.find("__metadata__"), nullptr);
}

TEST(SafetensorsReader, AcceptsAFileWithoutTensors) {
  auto file = parse_bytes(file_with("{}"));
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_TRUE(file.value().tensors().empty());
  EXPECT_TRUE(file.value().metadata().empty());
}

TEST(SafetensorsReader, AcceptsEmptyTensorsBetweenOthers) {
  const std::string bytes =
      file_with(R"({"x":{"dtype":"U8","shape":[3],"data_offsets":[1,4]},)"
                R"("none":{"dtype":"F32","shape":[0,7],"data_offsets":[1,1]},)"
                R"("end":{"dtype":"I64","shape":[0],"data_offsets":[4,4]},)"
                R"("w":{"dtype":"I8","shape":[1,1],"data_offsets":[0,1]}})",
                "wxyz");
  auto file = parse_bytes(bytes);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file.value().tensors()[1].name, "none");
  EXPECT_EQ(file.value().find("none")->n_elements(), 0U);
  EXPECT_TRUE(file.value().find("end")->data.empty());
  EXPECT_EQ(text_of(file.value().find("x")->data), "xyz");
}

TEST(SafetensorsReader, KnowsEveryDtypeAndItsSize) {
  const std::pair<const char*, uint64_t> kBytesOfEight[] = {
      {"BOOL", 8},    {"U8", 8},   {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8},
      {"F8_E8M0", 8}, {"I16", 16}, {"U16", 16}, {"F16", 16},    {"BF16", 16},
      {"I32", 32},    {"U32", 32}, {"F32", 32}, {"F64", 64},    {"I64", 64},
      {"U64", 64},    {"C64", 64}, {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6},
  };
  for (const auto& [dtype, size] : kBytesOfEight) {
    const std::string header =
        fmt::format(R"({{"t":{{"dtype":"{}","shape":[2,4],"data_offsets":[0,{}]}}}})", dtype, size);
    auto file = parse_bytes(file_with(header, std::string(size, 'x')));
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(name_of(file.value().tensors()[0].dtype), dtype);
    EXPECT_EQ(bits_of(file.value().tensors()[0].dtype), size);
  }
}

struct Refusal {
  const char* name;
  std::string bytes;
  const char* message;  // a part of it
};

std::ostream& operator<<(std::ostream& out, const Refusal& refusal) {
  return out << refusal.name;
}

// One tensor "t" of this body, with ten bytes of data.
std::string tensor_file(std::string_view body) {
  return file_with(fmt::format(R"({{"t":{}}})", body), "0123456789");
}

std::string with_dtype(std::string_view dtype) {
  return tensor_file(fmt::format(R"({{"dtype":{},"shape":[10],"data_offsets":[0,10]}})", dtype));
}

std::string with_shape(std::string_view shape) {
  return tensor_file(fmt::format(R"({{"dtype":"U8","shape":{},"data_offsets":[0,10]}})", shape));
}

std::string with_offsets(std::string_view offsets) {
  return tensor_file(fmt::format(R"({{"dtype":"U8","shape":[10],"data_offsets":{}}})", offsets));
}

// Tensors "p" and "q" of U8 at these offsets in `size` bytes.
std::string two_tensors(uint64_t p_begin, uint64_t p_end, uint64_t q_begin, uint64_t q_end,
                        uint64_t size) {
  constexpr const char* kTensor = R"("{}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}})";
  const std::string p = fmt::format(fmt::runtime(kTensor), "p", p_end - p_begin, p_begin, p_end);
  const std::string q = fmt::format(fmt::runtime(kTensor), "q", q_end - q_begin, q_begin, q_end);
  return file_with("{" + p + "," + q + "}", std::string(size, 'x'));
}

std::string named(std::string_view name) {
  return file_with(
      fmt::format(R"({{"{}":{{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}}})", name), "x");
}

const Refusal kFraming[] = {
    {"empty", "", "at least 8 bytes expected, found 0"},
    {"seven_bytes", "\2\0\0\0\0\0\0", "at least 8 bytes expected"},
    {"length_0", u64_le(0) + "{}", "header length from 2 to 100000000 expected, found 0"},
    {"length_1", u64_le(1) + "{}", "found 1"},
    {"length_past_end", u64_le(3) + "{}", "header of 3 bytes expected, the file ends after 2"},
    {"length_100000000", u64_le(100'000'000) + "{}", "header of 100000000 bytes expected"},
    {"length_100000001", u64_le(100'000'001) + "{}", "found 100000001"},
    {"length_max", u64_le(UINT64_MAX) + "{}", "found 18446744073709551615"},
};

const Refusal kJson[] = {
    {"not_json", file_with("hello}"), R"(must begin with '{', found "h")"},
    {"array", file_with("[{}]"), R"(must begin with '{', found "[")"},
    {"number", file_with("17"), R"(must begin with '{', found "1")"},
    {"space_before", file_with(" {}"), R"(must begin with '{', found " ")"},
    {"byte_order_mark", file_with("\xEF\xBB\xBF{}"), "must begin with '{'"},
    {"only_spaces", file_with("        "), "must begin with '{'"},
    {"unclosed", file_with(R"({"a":1)"), "must end with '}' and spaces, found \"1\""},
    {"garbage_behind", file_with("{} x"), "must end with '}' and spaces, found \"x\""},
    {"newline_behind", file_with("{} \n"), R"(must end with '}' and spaces, found "\n")"},
    {"NUL_behind", file_with(std::string_view("{}\0", 3)), "must end with '}' and spaces"},
    {"object_behind", file_with("{}{}"), "not valid JSON"},
    {"comma_missing", file_with(R"({"a":{} "b":{}})"), "not valid JSON"},
    {"comma_too_many", file_with("{,}"), "not valid JSON"},
    {"comment", file_with("{/**/}"), "not valid JSON"},
    {"key_without_quotes", file_with("{a:{}}"), "not valid JSON"},
    {"invalid_utf8", file_with("{\"a\xFF\":{}}"), "UTF-8"},
    {"overlong_utf8", file_with("{\"a\xC0\x80\":{}}"), "UTF-8"},
    {"lone_surrogate", file_with(R"({"\ud800":{}})"), "not valid JSON"},
    {"control_character", file_with("{\"a\nb\":{}}"), "not valid JSON"},
    {"nested_100000_deep",
     file_with("{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}"),
     "too deep"},
    {"unclosed_100000_deep", file_with("{\"a\":" + std::string(100'000, '[') + "}"),
     "not valid JSON"},
    {"objects_100000_deep", file_with([] {
       std::string text;
       for (int i = 0; i < 100'000; ++i) text += "{\"a\":";
       return text + "1" + std::string(100'000, '}');
     }()),
     "too deep"},
    {"name_twice",
     file_with(R"({"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
               R"("t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
     "key \"t\" appears twice"},
    {"name_twice_by_escape",
     file_with(R"({"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
               R"("\u0074":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
     "key \"t\" appears twice"},
    {"metadata_twice", file_with(R"({"__metadata__":{},"__metadata__":{}})"),
     "key \"__metadata__\" appears twice"},
    {"field_twice",
     tensor_file(R"({"dtype":"U8","shape":[10],"shape":[10],"data_offsets":[0,10]})"),
     R"(key "t"."shape" appears twice)"},
};

const Refusal kFields[] = {
    {"tensor_is_a_number", tensor_file("3"), "tensor \"t\": an object expected, found 3"},
    {"tensor_is_null", tensor_file("null"), "tensor \"t\": an object expected, found null"},
    {"no_dtype", tensor_file(R"({"shape":[10],"data_offsets":[0,10]})"), "tensor \"t\": no dtype"},
    {"no_shape", tensor_file(R"({"dtype":"U8","data_offsets":[0,10]})"), "tensor \"t\": no shape"},
    {"no_offsets", tensor_file(R"({"dtype":"U8","shape":[10]})"), "tensor \"t\": no data_offsets"},
    {"unknown_field",
     tensor_file(R"({"dtype":"U8","shape":[10],"data_offsets":[0,10],"strides":[1]})"),
     "tensor \"t\": unknown field \"strides\""},
    {"metadata_is_an_array", file_with(R"({"__metadata__":["a"]})"),
     "__metadata__: an object expected, found an array"},
    {"metadata_of_numbers", file_with(R"({"__metadata__":{"n":4}})"),
     "__metadata__: \"n\": a string expected, found 4"},
    {"dtype_unknown", with_dtype("\"F12\""), "tensor \"t\": unknown dtype \"F12\""},
    {"dtype_in_lower_case", with_dtype("\"u8\""), "tensor \"t\": unknown dtype \"u8\""},
    {"dtype_is_a_number", with_dtype("8"), "tensor \"t\": dtype: a string expected, found 8"},
    {"dtype_is_an_object", with_dtype("{}"), "dtype: a string expected, found an object"},
    {"shape_is_a_number", with_shape("10"), "tensor \"t\": shape: an array expected, found 10"},
    {"shape_negative", with_shape("[-10]"),
     "tensor \"t\": shape: a non-negative integer expected, found -10"},
    {"shape_fraction", with_shape("[10.0]"), "non-negative integer expected, found 10"},
    {"shape_exponent", with_shape("[1e1]"), "non-negative integer expected, found 10"},
    {"shape_string", with_shape(R"(["10"])"), "non-negative integer expected, found \"10\""},
    {"shape_true", with_shape("[true]"), "non-negative integer expected, found true"},
    {"shape_nested", with_shape("[[10]]"), "non-negative integer expected, found an array"},
    {"shape_2_63", with_shape("[9223372036854775808]"), "tensor \"t\": shape: the number of bits"},
    {"shape_2_64", with_shape("[18446744073709551616]"), "parsing a number"},
    {"shape_product_overflows", with_shape("[4294967296,4294967296,10]"),
     "tensor \"t\": shape: the number of bits does not fit 64 bits"},
    {"shape_product_wraps_to_the_size", with_shape("[2305843009213693953,8]"),
     "tensor \"t\": shape: the number of bits does not fit 64 bits"},
    {"bits_overflow", with_shape("[2305843009213693952]"), "number of bits does not fit"},
    {"F4_half_a_byte", tensor_file(R"({"dtype":"F4","shape":[19],"data_offsets":[0,10]})"),
     "tensor \"t\": 19 elements of F4 do not fill whole bytes"},
    {"F6_part_of_a_byte", tensor_file(R"({"dtype":"F6_E2M3","shape":[13],"data_offsets":[0,10]})"),
     "tensor \"t\": 13 elements of F6_E2M3 do not fill whole bytes"},
};

const Refusal kOffsets[] = {
    {"one", with_offsets("[10]"), "tensor \"t\": data_offsets: 2 elements expected, found 1"},
    {"three", with_offsets("[0,10,10]"), "data_offsets: 2 elements expected, found 3"},
    {"not_an_array", with_offsets("{}"), "data_offsets: an array expected, found an object"},
    {"negative", with_offsets("[-1,9]"), "non-negative integer expected, found -1"},
    {"fraction", with_offsets("[0,10.5]"), "non-negative integer expected, found 10.5"},
    {"reversed", with_offsets("[10,0]"), "tensor \"t\": data_offsets: end 0 before begin 10"},
    {"past_the_end", with_offsets("[0,11]"),
     "tensor \"t\": data_offsets: end 11 behind the 10 bytes of data"},
    {"above_2_53", with_offsets("[9007199254740993,9007199254741003]"),
     "end 9007199254741003 behind the 10 bytes"},
    {"max", with_offsets("[18446744073709551605,18446744073709551615]"),
     "end 18446744073709551615 behind"},
    {"shorter_than_shape", with_offsets("[0,9]"),
     "tensor \"t\": 10 bytes expected from dtype and shape, data_offsets span 9"},
    {"BF16_of_odd_length", tensor_file(R"({"dtype":"BF16","shape":[5],"data_offsets":[0,9]})"),
     "tensor \"t\": 10 bytes expected from dtype and shape, data_offsets span 9"},
    {"first_not_at_0", two_tensors(1, 5, 5, 10, 10),
     "tensor \"p\": data_offsets: begin 0 expected"},
    {"overlap", two_tensors(0, 6, 5, 10, 10),
     "tensor \"q\": data_offsets: begin 6 expected, found 5: overlaps"},
    {"same_place", two_tensors(0, 5, 0, 5, 5), "begin 5 expected, found 0: overlaps"},
    {"empty_inside_another", two_tensors(0, 10, 5, 5, 10), "tensor \"q\": data_offsets: begin 10"},
    {"hole", two_tensors(0, 4, 5, 10, 10),
     "tensor \"q\": data_offsets: begin 4 expected, found 5: leaves a hole"},
    {"data_behind_the_last", two_tensors(0, 4, 4, 10, 11),
     "10 bytes of data expected, the file has 11"},
    {"data_without_tensors", file_with("{}", "x"), "0 bytes of data expected, the file has 1"},
};

const Refusal kNames[] = {
    {"empty", named(""), "a tensor has an empty name"},
    {"NUL", named(R"(a\u0000b)"), R"(tensor "a\x00b": NUL in the name)"},
    {"65537_bytes", named(std::string(65'537, 'n')),
     "nnn\"...: a name of at most 65536 bytes expected, found 65537"},
    {"10_MB", named(std::string(10'000'000, 'n')), "found 10000000"},
};

class SafetensorsRefusal : public ::testing::TestWithParam<Refusal> {};

TEST_P(SafetensorsRefusal, NamesTheFileAndTheFault) {
  auto file = parse_bytes(GetParam().bytes);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(file.error().message, StartsWith("f.safetensors: "));
  EXPECT_THAT(file.error().message, HasSubstr(GetParam().message));
  EXPECT_LT(file.error().message.size(), 300U);
}

std::string case_name(const ::testing::TestParamInfo<Refusal>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Framing, SafetensorsRefusal, ::testing::ValuesIn(kFraming), case_name);
INSTANTIATE_TEST_SUITE_P(Json, SafetensorsRefusal, ::testing::ValuesIn(kJson), case_name);
INSTANTIATE_TEST_SUITE_P(Fields, SafetensorsRefusal, ::testing::ValuesIn(kFields), case_name);
INSTANTIATE_TEST_SUITE_P(Offsets, SafetensorsRefusal, ::testing::ValuesIn(kOffsets), case_name);
INSTANTIATE_TEST_SUITE_P(Names, SafetensorsRefusal, ::testing::ValuesIn(kNames), case_name);

TEST(SafetensorsReader, AcceptsTheLongestName) {
  const std::string name(65'536, 'n');
  const std::string bytes = named(name);
  auto file = parse_bytes(bytes);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_NE(file.value().find(name), nullptr);
}

TEST(SafetensorsReader, RefusesEveryTruncation) {
  const std::string bytes = file_with(kHeader, kData);
  for (size_t size = 0; size < bytes.size(); ++size) {
    auto file = parse_bytes(std::string_view(bytes).substr(0, size));
    ASSERT_FALSE(file.ok()) << size;
    EXPECT_THAT(file.error().message, StartsWith("f.safetensors: ")) << size;
  }
}

// Whatever one wrong byte makes of the header, tensors that come out still tile the data.
TEST(SafetensorsReader, StaysWithinTheDataWhenAHeaderByteIsWrong) {
  const std::string good = file_with(kHeader, kData);
  for (size_t at = 0; at < 8 + kHeader.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(value);
      if (bytes == good) continue;
      auto file = parse_bytes(bytes);
      if (!file.ok()) continue;
      ASSERT_GE(at, 8U) << "a wrong length was accepted";
      std::string data;
      for (const SourceTensor& tensor : file.value().tensors()) {
        ASSERT_EQ(tensor.n_elements() * bits_of(tensor.dtype), tensor.data.size() * 8);
        data += text_of(tensor.data);
      }
      ASSERT_EQ(data, kData) << at << " " << value;
    }
  }
}

TEST(SafetensorsReader, ReadsAMillionTensors) {
  constexpr uint64_t kCount = 1'000'000;
  std::string header = "{";
  for (uint64_t i = 0; i < kCount; ++i) {
    if (i > 0) header += ',';
    fmt::format_to(std::back_inserter(header),
                   R"("t{}":{{"dtype":"U8","shape":[1],"data_offsets":[{},{}]}})", i, i, i + 1);
  }
  header += '}';
  const std::string bytes = file_with(header, std::string(kCount, 'x'));
  auto file = parse_bytes(bytes);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file.value().tensors().size(), kCount);
  ASSERT_NE(file.value().find("t999999"), nullptr);
  EXPECT_EQ(file.value().find("t999999"), &file.value().tensors()[999'999]);
}

using SafetensorsOnDisk = FolderTest;

TEST_F(SafetensorsOnDisk, OpensAFileAndKeepsItMapped) {
  const std::string path = write("model.safetensors", file_with(kHeader, kData)).string();
  auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_NE(file.value().file(), nullptr);
  EXPECT_EQ(file.value().file()->path(), path);
  EXPECT_EQ(text_of(file.value().find("a")->data), "AA");
}

TEST_F(SafetensorsOnDisk, NamesAFileThatIsNotThere) {
  auto file = SafetensorsFile::open((folder_ / "none.safetensors").string());
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(file.error().message, HasSubstr("none.safetensors: cannot open"));
}

}  // namespace
}  // namespace hf2q
