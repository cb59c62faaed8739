// What load_weights says of a file whose tensors are not those of its model. The files are good
// ones of which a single tensor's entry in the header is changed.

#include "model/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>

#include "convert/plan.h"
#include "support/temp_folder.h"
#include "support/value_of.h"

namespace hf2q {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing_support::TempFolder;
using testing_support::value_of;

// The entry of one tensor in the header of a GGUF file: name | u32 n_dims | u64 dims | u32 type.
struct Entry {
  std::byte* name;
  size_t name_size;
  std::vector<uint64_t> dims;

  std::byte* dim(size_t i) const { return name + name_size + 4 + 8 * i; }
  std::byte* type() const { return dim(dims.size()); }
};

// A converted checkpoint in memory that can be changed.
class ModelBytes {
 public:
  explicit ModelBytes(const std::string& folder) {
    const TempFolder work;
    std::filesystem::copy(folder, work.path() / "checkpoint");
    std::filesystem::copy(HF2Q_MODELS "/tiny-gemma4/tokenizer.json", work.path() / "checkpoint");
    QuantizeOptions options;
    options.file_type = FileType::kF32;
    EXPECT_TRUE(
        write(value_of(plan_conversion(work / "checkpoint", options)), work / "m.gguf", {}).ok());
    const std::string text = testing_support::read_text(work / "m.gguf");
    bytes_.resize(text.size());
    std::memcpy(bytes_.data(), text.data(), text.size());
  }

  std::vector<std::string> tensor_names() const {
    std::vector<std::string> names;
    const GgufFile file = value_of(GgufFile::parse(bytes_, "m"));
    for (const GgufTensor& tensor : file.tensors()) names.emplace_back(tensor.name);
    return names;
  }

  Entry entry(const std::string& name) {
    const GgufFile file = value_of(GgufFile::parse(bytes_, "m"));
    const GgufTensor* tensor = file.find_tensor(name);
    EXPECT_NE(tensor, nullptr) << name;
    const auto offset = reinterpret_cast<const std::byte*>(tensor->name.data()) - bytes_.data();
    return {bytes_.data() + offset,
            name.size(),
            {tensor->dims.begin(), tensor->dims.begin() + tensor->n_dims}};
  }

  // What loading says after `change`, which is undone; the message is "" when all is well.
  Error after(const std::string& name, const std::function<void(const Entry&)>& change) {
    const Entry found = entry(name);
    const size_t size = name.size() + 4 + 8 * found.dims.size() + 4;
    const std::vector<std::byte> before(found.name, found.name + size);
    change(found);
    const GgufFile file = value_of(GgufFile::parse(bytes_, "m.gguf"));
    const Result<uint64_t> planned = plan_weights(file, {});
    std::copy(before.begin(), before.end(), found.name);
    return planned.ok() ? Error{ErrorCode::kNotFound, ""} : planned.error();
  }

 private:
  std::vector<std::byte> bytes_;
};

void put(std::byte* to, auto value) {
  std::memcpy(to, &value, sizeof value);
}

// Another name of the same length that no model has.
void rename(const Entry& entry) {
  entry.name[0] = std::byte{'x'};
}

// Other dimensions for the same bytes: two that differ are swapped, else n F32 become 2n F16.
std::vector<uint64_t> reshape(const Entry& entry) {
  std::vector<uint64_t> dims = entry.dims;
  for (size_t i = 0; i + 1 < dims.size(); ++i) {
    if (dims[i] == dims[i + 1]) continue;
    std::swap(dims[i], dims[i + 1]);
    break;
  }
  if (dims == entry.dims) {
    dims[0] *= 2;
    put(entry.type(), static_cast<uint32_t>(TensorType::kF16));
  }
  for (size_t i = 0; i < dims.size(); ++i) put(entry.dim(i), dims[i]);
  return dims;
}

class WeightsTest : public testing::TestWithParam<const char*> {
 protected:
  static ModelBytes load() { return ModelBytes(std::string(HF2Q_TEST_DATA) + "/" + GetParam()); }
};

TEST_P(WeightsTest, EveryTensorIsMissed) {
  ModelBytes bytes = load();
  for (const std::string& name : bytes.tensor_names()) {
    // The only full layer with K and V of its own: without V it is one of a model with K = V.
    if (GetParam() == std::string("micro-ple") && name == "blk.3.attn_v.weight") continue;
    const Entry entry = bytes.entry(name);
    const Error failure = bytes.after(name, rename);
    EXPECT_EQ(failure.code, ErrorCode::kNotFound) << name;
    EXPECT_EQ(failure.message, fmt::format("m.gguf: {}: a tensor [{}] expected, found none", name,
                                           fmt::join(entry.dims, ", ")));
  }
}

TEST_P(WeightsTest, EveryShapeIsChecked) {
  ModelBytes bytes = load();
  for (const std::string& name : bytes.tensor_names()) {
    const Entry entry = bytes.entry(name);
    std::vector<uint64_t> dims;
    const Error failure = bytes.after(name, [&](const Entry& changed) { dims = reshape(changed); });
    EXPECT_EQ(failure.code, ErrorCode::kCorrupt) << name;
    EXPECT_EQ(failure.message, fmt::format("m.gguf: {}: shape [{}] expected, found [{}]", name,
                                           fmt::join(entry.dims, ", "), fmt::join(dims, ", ")));
  }
}

INSTANTIATE_TEST_SUITE_P(All, WeightsTest, testing::Values("micro-moe", "micro-ple"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// A type that files may have and no kernel reads.
TEST(Weights, ATypeWithoutAKernelIsNamed) {
  ModelBytes bytes(HF2Q_TEST_DATA "/micro-ple");
  constexpr uint32_t kI32 = 26;  // as many bytes as F32
  const Error failure =
      bytes.after("blk.1.ffn_up.weight", [&](const Entry& entry) { put(entry.type(), kI32); });
  EXPECT_EQ(failure.code, ErrorCode::kUnsupported);
  EXPECT_THAT(failure.message, AllOf(HasSubstr("blk.1.ffn_up.weight"), HasSubstr("type i32")));
}

TEST(Weights, AnUnchangedFileIsFine) {
  ModelBytes bytes(HF2Q_TEST_DATA "/micro-ple");
  EXPECT_EQ(bytes.after("output_norm.weight", [](const Entry&) {}).message, "");
}

}  // namespace
}  // namespace hf2q
