#include "convert/checkpoint_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "convert/hf_config.h"
#include "support/temp_folder.h"
#include "support/value_of.h"

namespace hf2q {
namespace {

using testing::HasSubstr;
using testing_support::read_text;
using testing_support::TempFolder;
using testing_support::value_of;

Config config_of(const std::string& folder) {
  return parse_hf_config(read_text(folder + "/config.json"), "config.json").value().config;
}

// A copy of a checkpoint's tensors that a test may change before writing it to a folder.
class EditableCheckpoint {
 public:
  explicit EditableCheckpoint(const std::string& folder)
      : original_(std::make_unique<Checkpoint>(value_of(Checkpoint::open(folder)))) {
    for (const SourceTensor* tensor : original_->tensors()) tensors_.emplace(tensor->name, *tensor);
  }
  SourceTensor& at(const std::string& name) { return tensors_.at(name); }
  void erase(const std::string& name) { ASSERT_EQ(tensors_.erase(name), 1U); }
  void add(SourceTensor tensor) { tensors_[tensor.name] = std::move(tensor); }
  void rename_prefix(const std::string& from, const std::string& to) {
    std::map<std::string, SourceTensor> renamed;
    for (auto& [name, tensor] : tensors_) {
      if (name.starts_with(from)) tensor.name = to + name.substr(from.size());
      renamed.emplace(tensor.name, tensor);
    }
    tensors_ = std::move(renamed);
  }
  Checkpoint write(const TempFolder& folder) const {
    std::vector<SourceTensor> list;
    for (const auto& [name, tensor] : tensors_) list.push_back(tensor);
    EXPECT_TRUE(write_safetensors(folder / "model.safetensors", list).ok());
    return value_of(Checkpoint::open(folder.path()));
  }

 private:
  std::unique_ptr<Checkpoint> original_;
  std::map<std::string, SourceTensor> tensors_;
};

const OutputTensor& find(const CheckpointMap& map, const std::string& name) {
  for (const OutputTensor& tensor : map.tensors) {
    if (tensor.name == name) return tensor;
  }
  ADD_FAILURE() << "no tensor " << name;
  return map.tensors.front();
}

std::set<std::string> names(const CheckpointMap& map) {
  std::set<std::string> result;
  for (const OutputTensor& tensor : map.tensors) EXPECT_TRUE(result.insert(tensor.name).second);
  return result;
}

std::vector<std::byte> all_bytes(const OutputTensor& tensor) {
  std::vector<std::byte> bytes;
  for (const Segment& segment : tensor.segments) {
    bytes.insert(bytes.end(), segment.data.begin(), segment.data.end());
  }
  return bytes;
}

const std::string kDense = HF2Q_MODELS "/tiny-gemma4";
const std::string kMoe = HF2Q_TEST_DATA "/micro-moe";
const std::string kPle = HF2Q_TEST_DATA "/micro-ple";

TEST(CheckpointMap, DenseNamesShapesAndBytes) {
  const Checkpoint checkpoint = value_of(Checkpoint::open(kDense));
  const CheckpointMap map = value_of(map_checkpoint(checkpoint, config_of(kDense), 8192));
  // 3 global tensors; per layer 13, less attn_v on the two full layers.
  EXPECT_EQ(map.tensors.size(), 3U + 6 * 14 - 2);
  EXPECT_TRUE(map.skipped.empty());
  const std::set<std::string> all = names(map);
  EXPECT_TRUE(all.contains("blk.0.attn_v.weight"));
  EXPECT_FALSE(all.contains("blk.2.attn_v.weight"));
  EXPECT_FALSE(all.contains("output.weight"));
  const OutputTensor& q = find(map, "blk.2.attn_q.weight");
  EXPECT_EQ(q.dims, (std::vector<uint64_t>{256, 4 * 512}));
  const SourceTensor* source = checkpoint.find("model.layers.2.self_attn.q_proj.weight");
  EXPECT_EQ(q.segments[0].data.data(), source->data.data());
  EXPECT_EQ(q.source_type(), TensorType::kBF16);
}

TEST(CheckpointMap, RopeFactorsMarkThePairsThatRotate) {
  const Checkpoint checkpoint = value_of(Checkpoint::open(kDense));
  const CheckpointMap map = value_of(map_checkpoint(checkpoint, config_of(kDense), 8192));
  const std::vector<float>& factors = find(map, "rope_freqs.weight").generated;
  ASSERT_EQ(factors.size(), 256U);
  for (size_t i = 0; i < 256; ++i) EXPECT_EQ(factors[i], i < 64 ? 1.0F : 1e30F);
}

TEST(CheckpointMap, WrapperSkipsTheVisionTower) {
  const Checkpoint checkpoint = value_of(Checkpoint::open(kMoe));
  const CheckpointMap map = value_of(map_checkpoint(checkpoint, config_of(kMoe), 8192));
  EXPECT_FALSE(map.skipped.empty());
  for (const std::string& name : map.skipped) EXPECT_THAT(name, HasSubstr("vision"));
  EXPECT_EQ(find(map, "blk.0.ffn_gate_up_exps.weight").dims, (std::vector<uint64_t>{128, 192, 6}));
  EXPECT_EQ(find(map, "blk.0.ffn_down_exps.weight").dims, (std::vector<uint64_t>{96, 128, 6}));
  EXPECT_EQ(find(map, "blk.3.ffn_gate_inp.scale").dims, (std::vector<uint64_t>{128}));
  EXPECT_EQ(find(map, "blk.3.ffn_down_exps.scale").dims, (std::vector<uint64_t>{6}));
}

TEST(CheckpointMap, EveryPrefixInUse) {
  const CheckpointMap expected =
      value_of(map_checkpoint(value_of(Checkpoint::open(kMoe)), config_of(kMoe), 8192));
  for (const char* prefix :
       {"model.", "language_model.model.", "language_model.", "model.text_model."}) {
    EditableCheckpoint editable(kMoe);
    editable.rename_prefix("model.language_model.", prefix);
    const TempFolder folder;
    const Checkpoint checkpoint = editable.write(folder);
    auto map = map_checkpoint(checkpoint, config_of(kMoe), 8192);
    ASSERT_TRUE(map.ok()) << prefix << map.error().message;
    EXPECT_EQ(names(map.value()), names(expected));
  }
}

TEST(CheckpointMap, SingleExpertsAreStacked) {
  const CheckpointMap expected =
      value_of(map_checkpoint(value_of(Checkpoint::open(kMoe)), config_of(kMoe), 8192));
  EditableCheckpoint editable(kMoe);
  for (int layer = 0; layer < 4; ++layer) {
    const std::string base = fmt::format("model.language_model.layers.{}.experts.", layer);
    const SourceTensor gate_up = editable.at(base + "gate_up_proj");  // [6, 192, 128]
    const SourceTensor down = editable.at(base + "down_proj");        // [6, 128, 96]
    editable.erase(base + "gate_up_proj");
    editable.erase(base + "down_proj");
    const size_t half = 96 * 128 * 2;
    for (size_t e = 0; e < 6; ++e) {
      const std::string name = base + std::to_string(e);
      editable.add({name + ".gate_proj.weight",
                    gate_up.dtype,
                    {96, 128},
                    gate_up.data.subspan(2 * e * half, half)});
      editable.add({name + ".up_proj.weight",
                    gate_up.dtype,
                    {96, 128},
                    gate_up.data.subspan((2 * e + 1) * half, half)});
      editable.add(
          {name + ".down_proj.weight", down.dtype, {128, 96}, down.data.subspan(e * half, half)});
    }
  }
  const TempFolder folder;
  const Checkpoint checkpoint = editable.write(folder);
  const CheckpointMap map = value_of(map_checkpoint(checkpoint, config_of(kMoe), 8192));
  for (const char* name : {"blk.1.ffn_gate_up_exps.weight", "blk.3.ffn_down_exps.weight"}) {
    EXPECT_EQ(find(map, name).dims, find(expected, name).dims);
    EXPECT_EQ(all_bytes(find(map, name)), all_bytes(find(expected, name))) << name;
  }
}

TEST(CheckpointMap, SharedLayersNeedNoKeysOrValues) {
  EditableCheckpoint editable(kPle);
  const CheckpointMap with =
      value_of(map_checkpoint(value_of(Checkpoint::open(kPle)), config_of(kPle), 8192));
  const bool stored = names(with).contains("blk.4.attn_k.weight");
  if (!stored) {  // then add what some published files carry along
    for (const char* part : {"k_proj", "v_proj", "k_norm"}) {
      SourceTensor copy = editable.at(fmt::format("model.layers.2.self_attn.{}.weight", part));
      copy.name = fmt::format("model.layers.4.self_attn.{}.weight", part);
      editable.add(copy);
    }
  }
  const TempFolder folder;
  const Checkpoint checkpoint = editable.write(folder);
  const CheckpointMap map = value_of(map_checkpoint(checkpoint, config_of(kPle), 8192));
  EXPECT_TRUE(names(map).contains("blk.4.attn_k.weight"));
  EXPECT_FALSE(names(map).contains("blk.5.attn_v.weight") && !stored);
  EXPECT_EQ(find(map, "per_layer_token_embd.weight").dims, (std::vector<uint64_t>{6 * 32, 8192}));
  EXPECT_EQ(find(map, "blk.0.proj.weight").dims, (std::vector<uint64_t>{32, 128}));
}

TEST(CheckpointMap, UntiedHeadAndPaddedEmbedding) {
  Config config = config_of(kDense);
  config.tied = false;
  EditableCheckpoint editable(kDense);
  SourceTensor head = editable.at("model.embed_tokens.weight");
  head.name = "lm_head.weight";
  editable.add(head);
  const TempFolder folder;
  const Checkpoint checkpoint = editable.write(folder);
  const CheckpointMap map = value_of(map_checkpoint(checkpoint, config, 8000));
  EXPECT_EQ(find(map, "output.weight").dims, (std::vector<uint64_t>{256, 8000}));
  EXPECT_EQ(find(map, "token_embd.weight").segments[0].data.size(), 8000U * 256 * 2);
  config.tied = true;
  const CheckpointMap tied = value_of(map_checkpoint(checkpoint, config, 8192));
  EXPECT_FALSE(names(tied).contains("output.weight"));
  EXPECT_THAT(tied.skipped, testing::ElementsAre("lm_head.weight"));
}

TEST(CheckpointMap, AHeadBelowAnyPrefixIsFound) {
  Config config = config_of(kMoe);
  config.tied = false;
  for (const char* prefix :
       {"", "model.", "language_model.", "model.language_model.", "model.text_model."}) {
    EditableCheckpoint editable(kMoe);
    SourceTensor head = editable.at("model.language_model.embed_tokens.weight");
    head.name = std::string(prefix).append("lm_head.weight");
    editable.add(head);
    const TempFolder folder;
    const Checkpoint checkpoint = editable.write(folder);
    const CheckpointMap map = value_of(map_checkpoint(checkpoint, config, 8192));
    EXPECT_EQ(find(map, "output.weight").dims, (std::vector<uint64_t>{128, 8192})) << prefix;
  }
}

TEST(CheckpointMap, ATiedHeadThatDiffersIsNamed) {
  EditableCheckpoint editable(kDense);
  SourceTensor head = editable.at("model.embed_tokens.weight");
  std::vector<std::byte> values(head.data.begin(), head.data.end());
  values.back() ^= std::byte{1};
  head.name = "lm_head.weight";
  head.data = values;
  editable.add(head);
  const TempFolder folder;
  const Checkpoint checkpoint = editable.write(folder);
  const auto map = map_checkpoint(checkpoint, config_of(kDense), 8192);
  ASSERT_FALSE(map.ok());
  EXPECT_EQ(map.error().message,
            "1 tensor of the checkpoint is not as config.json says:\n"
            "  lm_head.weight: the values of model.embed_tokens.weight expected, as "
            "tie_word_embeddings is true, found others");
}

TEST(CheckpointMap, ALongListEndsWithTheNumberThatIsLeft) {
  EditableCheckpoint editable(kDense);
  SourceTensor extra = editable.at("model.layers.0.input_layernorm.weight");
  for (int i = 0; i < 25; ++i) {
    extra.name = fmt::format("other\x1b{}", i);
    editable.add(extra);
  }
  const TempFolder folder;
  const Checkpoint checkpoint = editable.write(folder);
  const auto map = map_checkpoint(checkpoint, config_of(kDense), 8192);
  ASSERT_FALSE(map.ok());
  const std::string& message = map.error().message;
  EXPECT_THAT(message, testing::StartsWith("25 tensors of the checkpoint are not as config.json"));
  EXPECT_THAT(message, HasSubstr("\n  unknown: other\\x1b0 [256]\n"));
  EXPECT_THAT(message, testing::EndsWith("\n  and 5 more"));
  EXPECT_EQ(std::ranges::count(message, '\n'), 21);
}

TEST(CheckpointMap, ScalarOfALayerMayBeAbsentOrPerChannel) {
  EditableCheckpoint editable(kDense);
  editable.erase("model.layers.0.layer_scalar");
  const std::vector<float> channels(256, 0.5F);
  editable.add(
      {"model.layers.1.layer_scalar", Dtype::kF32, {256}, std::as_bytes(std::span(channels))});
  const TempFolder folder;
  const Checkpoint checkpoint = editable.write(folder);
  const CheckpointMap map = value_of(map_checkpoint(checkpoint, config_of(kDense), 8192));
  EXPECT_FALSE(names(map).contains("blk.0.layer_output_scale.weight"));
  EXPECT_EQ(find(map, "blk.1.layer_output_scale.weight").dims, (std::vector<uint64_t>{256}));
  EXPECT_EQ(find(map, "blk.2.layer_output_scale.weight").dims, (std::vector<uint64_t>{1}));
}

TEST(CheckpointMap, NamesEverythingThatIsWrongAtOnce) {
  EditableCheckpoint editable(kDense);
  editable.erase("model.layers.3.mlp.up_proj.weight");
  editable.erase("model.norm.weight");
  editable.at("model.layers.1.self_attn.q_proj.weight").shape = {512, 512};
  editable.at("model.layers.2.input_layernorm.weight").dtype = Dtype::kI16;
  SourceTensor extra = editable.at("model.layers.0.input_layernorm.weight");
  extra.name = "model.layers.0.v_norm.weight";
  editable.add(extra);
  const TempFolder folder;
  const Checkpoint checkpoint = editable.write(folder);
  auto map = map_checkpoint(checkpoint, config_of(kDense), 8192);
  ASSERT_FALSE(map.ok());
  const std::string& message = map.error().message;
  EXPECT_THAT(message, HasSubstr("5 tensors of"));
  EXPECT_THAT(message, HasSubstr("missing: model.layers.3.mlp.up_proj.weight [768, 256]"));
  EXPECT_THAT(message, HasSubstr("missing: model.norm.weight"));
  EXPECT_THAT(message, HasSubstr("q_proj.weight: shape [1024, 256] expected, found [512, 512]"));
  EXPECT_THAT(message, HasSubstr("F32, F16 or BF16 expected, found I16"));
  EXPECT_THAT(message, HasSubstr("unknown: model.layers.0.v_norm.weight"));
}

}  // namespace
}  // namespace hf2q
