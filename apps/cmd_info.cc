// hf2q info: what a GGUF file holds, also one that this program cannot run.

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/quote.h"
#include "commands.h"
#include "gguf/reader.h"
#include "kv/page_layout.h"
#include "model/config.h"
#include "quant/file_type.h"
#include "terminal.h"

namespace hf2q::app {
namespace {

using nlohmann::ordered_json;

constexpr size_t kShownText = 200;  // bytes of a metadata text

struct InfoFlags {
  std::string path;
  bool tensors = false;
  bool hashes = false;
  bool metadata = false;
  bool json = false;
};

// Layers that agree in what one position of the cache costs.
struct KvShape {
  uint64_t n_layers = 0;
  uint64_t n_kv_heads = 0;
  uint64_t head_dim = 0;
  uint64_t window = 0;  // 0: all positions are kept
};

struct ModelInfo {
  std::string architecture;
  std::string name;
  std::string file_type;
  uint64_t n_parameters = 0;
  uint64_t data_bytes = 0;
  uint64_t n_ctx = 0;
  std::vector<KvShape> kv;
  std::map<std::string, std::pair<size_t, uint64_t>> types;  // name -> tensors, bytes
};

uint64_t number(const GgufFile& file, const std::string& key) {
  const Value* value = file.find(key);
  if (value == nullptr) return 0;
  return value->as_u32().value_or(static_cast<uint32_t>(value->as_u64().value_or(0)));
}

std::string text(const GgufFile& file, std::string_view key) {
  const Value* value = file.find(key);
  return value == nullptr ? "" : std::string(value->as_string().value_or(""));
}

void add_layer(std::vector<KvShape>& shapes, KvShape layer) {
  for (KvShape& shape : shapes) {
    if (shape.n_kv_heads == layer.n_kv_heads && shape.head_dim == layer.head_dim &&
        shape.window == layer.window) {
      ++shape.n_layers;
      return;
    }
  }
  shapes.push_back(layer);
}

std::vector<KvShape> gemma4_kv(const Config& config) {
  std::vector<KvShape> shapes;
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    const LayerConfig& layer = config.layers[i];
    if (!config.owns_kv(i)) continue;
    add_layer(shapes,
              {1, layer.n_kv_heads, layer.head_dim, layer.sliding ? config.sliding_window : 0});
  }
  return shapes;
}

// What most architectures write: the same number of heads of one size in every layer.
std::vector<KvShape> foreign_kv(const GgufFile& file, const std::string& architecture) {
  const uint64_t n_layers = number(file, architecture + ".block_count");
  const uint64_t n_heads = number(file, architecture + ".attention.head_count");
  uint64_t n_kv_heads = number(file, architecture + ".attention.head_count_kv");
  uint64_t head_dim = number(file, architecture + ".attention.key_length");
  if (n_kv_heads == 0) n_kv_heads = n_heads;
  if (head_dim == 0 && n_heads > 0)
    head_dim = number(file, architecture + ".embedding_length") / n_heads;
  // Sizes that no model has would only overflow the sums.
  constexpr uint64_t kMost = 1 << 20;
  for (const uint64_t size : {n_layers, n_kv_heads, head_dim}) {
    if (size == 0 || size > kMost) return {};
  }
  return {
      {n_layers, n_kv_heads, head_dim, number(file, architecture + ".attention.sliding_window")}};
}

Result<ModelInfo> inspect(const GgufFile& file) {
  ModelInfo info;
  // What is no model (an importance matrix) says what it is instead.
  const Value* architecture = file.find("general.architecture");
  if (architecture != nullptr || file.find("general.type") == nullptr) {
    TRY(name, file.get_string("general.architecture"));
    info.architecture = name;
  }
  info.name = text(file, "general.name");
  for (const FileTypeInfo& type : file_types()) {
    const Value* id = file.find("general.file_type");
    if (id != nullptr && id->as_u32() == static_cast<uint32_t>(type.type))
      info.file_type = type.name;
  }
  for (const GgufTensor& tensor : file.tensors()) {
    auto& [count, bytes] = info.types[std::string(tensor.type->name)];
    ++count;
    bytes += tensor.data.size();
    info.n_parameters += tensor.n_elements();
    info.data_bytes += tensor.data.size();
  }
  info.n_ctx = number(file, info.architecture + ".context_length");
  if (info.architecture != "gemma4") {
    info.kv = foreign_kv(file, info.architecture);
    return info;
  }
  TRY(config, read_config(file));
  info.kv = gemma4_kv(config);
  return info;
}

// Bytes that one position of all layers of `shape` takes with K and V in this format.
uint64_t kv_bytes(const KvShape& shape, const KvFormatInfo& format) {
  return shape.n_layers * shape.n_kv_heads * 2 *
         (format.row_bytes(shape.head_dim) + format.norm_bytes(shape.head_dim));
}

bool fits(const std::vector<KvShape>& shapes, const KvFormatInfo& format) {
  const auto holds = [&](const KvShape& shape) { return format.holds(shape.head_dim); };
  return !shapes.empty() && std::ranges::all_of(shapes, holds);
}

// Stored bits of a value, norms included, on average over all layers.
double bits_per_value(const std::vector<KvShape>& shapes, const KvFormatInfo& format) {
  uint64_t bytes = 0;
  uint64_t values = 0;
  for (const KvShape& shape : shapes) {
    bytes += kv_bytes(shape, format);
    values += uint64_t{shape.n_layers} * shape.n_kv_heads * 2 * shape.head_dim;
  }
  return 8.0 * static_cast<double>(bytes) / static_cast<double>(values);
}

std::string value_text(const Value& value) {
  switch (value.type) {
    case ValueType::kString: {
      const std::string_view text = *value.as_string();
      return ordered_json(std::string(text.substr(0, kShownText)))
                 .dump(-1, ' ', false, ordered_json::error_handler_t::replace) +
             (text.size() > kShownText ? "..." : "");
    }
    case ValueType::kArray:
      return fmt::format("[{} of {}]", value.count, name_of(value.element));
    case ValueType::kBool:
      return *value.as_bool() ? "true" : "false";
    case ValueType::kF32:
      return fmt::format("{}", *value.as_f32());
    case ValueType::kU32:
      return fmt::format("{}", *value.as_u32());
    case ValueType::kI32:
      return fmt::format("{}", *value.as_i32());
    default:
      return fmt::format("({}, {} bytes)", name_of(value.type), value.bytes.size());
  }
}

std::string hash_of(const GgufTensor& tensor) {
  return fmt::format("{:016x}", XXH3_64bits(tensor.data.data(), tensor.data.size()));
}

ordered_json kv_json(const ModelInfo& info) {
  ordered_json formats = ordered_json::object();
  for (const KvFormatInfo& format : kKvFormats) {
    if (!fits(info.kv, format)) continue;
    uint64_t full = 0;
    uint64_t window = 0;
    for (const KvShape& shape : info.kv) {
      (shape.window == 0 ? full : window) += kv_bytes(shape, format);
    }
    formats[std::string(format.name)] = {{"full_layers", full},
                                         {"window_layers", window},
                                         {"bits_per_value", bits_per_value(info.kv, format)}};
  }
  return formats;
}

ordered_json file_json(const GgufFile& file, const ModelInfo& info, const InfoFlags& flags) {
  ordered_json types = ordered_json::object();
  for (const auto& [name, total] : info.types) {
    types[name] = {{"tensors", total.first}, {"bytes", total.second}};
  }
  ordered_json result = {{"file", file.path()},
                         {"architecture", info.architecture},
                         {"name", info.name},
                         {"file_type", info.file_type},
                         {"version", file.version()},
                         {"shards", file.n_shards()},
                         {"file_bytes", file.file_bytes()},
                         {"parameters", info.n_parameters},
                         {"context", info.n_ctx},
                         {"types", types},
                         {"kv_bytes_per_token", kv_json(info)}};
  ordered_json metadata = ordered_json::object();
  for (const auto& [key, value] : file.metadata()) metadata[std::string(key)] = value_text(value);
  result["metadata"] = std::move(metadata);
  if (!flags.tensors) return result;
  ordered_json tensors = ordered_json::array();
  for (const GgufTensor& tensor : file.tensors()) {
    ordered_json entry = {
        {"name", tensor.name},
        {"dims", std::vector<uint64_t>(tensor.dims.begin(), tensor.dims.begin() + tensor.n_dims)},
        {"type", tensor.type->name},
        {"bytes", tensor.data.size()}};
    if (flags.hashes) entry["xxh3"] = hash_of(tensor);
    tensors.push_back(std::move(entry));
  }
  result["tensors"] = std::move(tensors);
  return result;
}

void print_kv(const ModelInfo& info) {
  if (info.kv.empty()) return;
  fmt::print("cache      bytes per token of one sequence, by format of K and V\n");
  std::string head = "           format   bits";
  for (const KvShape& shape : info.kv) {
    const std::string kept =
        shape.window == 0 ? "all tokens" : fmt::format("last {}", shape.window);
    head += fmt::format("  {:>24}", fmt::format("{} x {} x {}, {}", shape.n_layers,
                                                shape.n_kv_heads, shape.head_dim, kept));
  }
  fmt::print("{}   (layers x KV heads x values)\n", head);
  for (const KvFormatInfo& format : kKvFormats) {
    if (!fits(info.kv, format)) continue;
    std::string line =
        fmt::format("           {:6} {:6.3f}", format.name, bits_per_value(info.kv, format));
    for (const KvShape& shape : info.kv) line += fmt::format("  {:>24}", kv_bytes(shape, format));
    fmt::print("{}\n", line);
  }
}

void print_tensors(const GgufFile& file, const InfoFlags& flags) {
  for (const GgufTensor& tensor : file.tensors()) {
    fmt::print("  {:40} [{}] {} {}{}\n", tensor.name,
               fmt::join(tensor.dims.begin(), tensor.dims.begin() + tensor.n_dims, ", "),
               tensor.type->name, human_bytes(tensor.data.size()),
               flags.hashes ? "  " + hash_of(tensor) : "");
  }
}

void print_info(const GgufFile& file, const ModelInfo& info, const InfoFlags& flags) {
  fmt::print("file       {} (GGUF {}{}), {}\n", file.path(), file.version(),
             file.n_shards() > 1 ? fmt::format(", {} shards", file.n_shards()) : "",
             human_bytes(file.file_bytes()));
  fmt::print("model      {}, architecture {}{}\n",
             info.name.empty() ? "(no name)" : quote(info.name), quote(info.architecture),
             info.architecture == "gemma4" ? "" : " (cannot be run by this program)");
  const double bits = info.n_parameters == 0 ? 0
                                             : 8.0 * static_cast<double>(info.data_bytes) /
                                                   static_cast<double>(info.n_parameters);
  fmt::print("parameters {}, {:.2f} bits each{}\n", human_count(info.n_parameters), bits,
             info.file_type.empty() ? "" : ", " + info.file_type);
  for (const auto& [name, total] : info.types) {
    fmt::print("           {:7} {:>13}  {:>12}\n", name, count_of(total.first, "tensor"),
               human_bytes(total.second));
  }
  if (info.n_ctx > 0) fmt::print("context    {} tokens\n", info.n_ctx);
  print_kv(info);
  if (flags.metadata) {
    fmt::print("metadata\n");
    for (const auto& [key, value] : file.metadata())
      fmt::print("  {} = {}\n", key, value_text(value));
  }
  if (flags.tensors) {
    fmt::print("tensors\n");
    print_tensors(file, flags);
  }
}

int run(const InfoFlags& flags) {
  const Result<GgufFile> file = GgufFile::open(flags.path);
  if (!file.ok()) return report(file.error());
  const Result<ModelInfo> info = inspect(file.value());
  if (!info.ok()) return report(info.error());
  if (flags.json) {
    print_json(file_json(file.value(), info.value(), flags), 2);
  } else {
    print_info(file.value(), info.value(), flags);
  }
  return kSuccess;
}

}  // namespace

void add_info(Program& program, const Globals& /*globals*/) {
  Command command = program.add_command("info", "Show what a GGUF file holds");
  auto flags = std::make_shared<InfoFlags>();
  command.add_option("file", flags->path, "GGUF file (of shards, the first)").required();
  command.add_flag("--tensors", flags->tensors, "List every tensor");
  command.add_flag("--hashes", flags->hashes,
                   "With --tensors: a hash of each tensor's bytes (XXH3)");
  command.add_flag("--metadata", flags->metadata, "List every metadata key");
  command.add_flag("--json", flags->json, "As JSON on stdout");
  command.on_run([flags] { return run(*flags); });
}

}  // namespace hf2q::app
