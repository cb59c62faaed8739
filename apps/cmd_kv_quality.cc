// hf2q kv-quality: what the format of the cache costs, on a text.

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "commands.h"
#include "engine/cache_quality.h"
#include "model_flags.h"
#include "terminal.h"
#include "text_flags.h"

namespace hf2q::app {
namespace {

struct KvQualityFlags {
  ModelFlags model;
  TextFlags text;
  std::string a = "f32/f32";
  std::string b;
  bool json = false;
};

// "f16/tq8": the formats of K and V in all layers; "f16/tq8,f32/f32": others for layers with a
// window. Names are checked when the engine is made.
Result<ModelFlags> with_cache(ModelFlags flags, std::string_view name, std::string_view text) {
  const auto split = [](std::string_view whole, char mark) {
    const size_t at = whole.find(mark);
    return at == std::string_view::npos ? std::pair(whole, std::string_view())
                                        : std::pair(whole.substr(0, at), whole.substr(at + 1));
  };
  const auto [all, window] = split(text, ',');
  const auto [k, v] = split(all, '/');
  const auto [k_swa, v_swa] = split(window, '/');
  if (k.empty() || v.empty() || k_swa.empty() != v_swa.empty()) {
    return error(ErrorCode::kInvalidArgument,
                 "{}: formats like f16/tq8 (K/V; then, after a comma, those of layers with a "
                 "window) expected, found \"{}\"",
                 name, text);
  }
  flags.k_format = k;
  flags.v_format = v;
  flags.k_format_swa = k_swa;
  flags.v_format_swa = v_swa;
  return flags;
}

// Bytes of cache for one more token, all layers.
uint64_t bytes_per_token(const Engine& engine) {
  uint64_t bytes = 0;
  for (const KvGroup& group : engine.kv().groups) {
    const PageLayout& layout = group.layout;
    bytes += uint64_t{layout.n_layers} * layout.n_kv_heads *
             (layout.k_row_bytes() + layout.k_norm_bytes() + layout.v_row_bytes() +
              layout.v_norm_bytes());
  }
  return bytes;
}

void print_quality(const CacheQuality& quality, const Engine& a, const Engine& b) {
  print_divergence(quality.divergence);
  const uint64_t bytes_a = bytes_per_token(a);
  const uint64_t bytes_b = bytes_per_token(b);
  fmt::print("bytes per token  {}, reference {} ({:.2f} of it)\n", bytes_b, bytes_a,
             static_cast<double>(bytes_b) / static_cast<double>(bytes_a));
  if (quality.n_routed > 0) {
    fmt::print(
        "router flips     {} of {} rows ({:.3f} %)\n", quality.n_flips, quality.n_routed,
        100.0 * static_cast<double>(quality.n_flips) / static_cast<double>(quality.n_routed));
  }
  fmt::print("attention cosine by layer\n");
  for (size_t i = 0; i < quality.attention_cosine.size(); ++i) {
    fmt::print("  {:3}  {:.6f}\n", i, quality.attention_cosine[i]);
  }
}

Result<int> measure(const KvQualityFlags& flags, const Globals& globals) {
  ModelFlags model = flags.model;
  model.max_rows = std::min(model.max_rows, kComparedRows);
  TRY(flags_a, with_cache(model, "--a", flags.a));
  TRY(flags_b, with_cache(model, "--b", flags.b));
  TRY(a, load_engine(flags_a, globals, model.max_rows));
  TRY(options_b, engine_options(flags_b, globals));
  options_b.max_outputs = model.max_rows;
  TRY(b, a->with_other_cache(options_b));
  TRY(ids, read_text_ids(flags.text, a->tokenizer()));
  TRY(quality, compare_caches(*a, *b, ids));
  if (!flags.json) {
    print_quality(quality, *a, *b);
    return kSuccess;
  }
  nlohmann::ordered_json json = {{"a", flags.a}, {"b", flags.b}};
  json.update(to_json(quality.divergence));
  json["bytes_per_token_a"] = bytes_per_token(*a);
  json["bytes_per_token_b"] = bytes_per_token(*b);
  json["attention_cosine"] = quality.attention_cosine;
  json["routed_rows"] = quality.n_routed;
  json["router_flips"] = quality.n_flips;
  print_json(json);
  return kSuccess;
}

}  // namespace

void add_kv_quality(Program& program, const Globals& globals) {
  Command command =
      program.add_command("kv-quality", "What the format of the cache costs, on a text");
  auto flags = std::make_shared<KvQualityFlags>();
  add_text_flags(command, flags->text, flags->model);
  command
      .add_option("--a", flags->a,
                  "The reference, K/V; after a comma those of layers with a window, if others")
      .show_default();
  command.add_option("--b", flags->b, "What is measured, like f16/tq8").required();
  command.add_flag("--json", flags->json,
                   "{\"a\", \"b\", \"tokens\", \"kl_mean\", \"kl_median\", \"kl_p99\", "
                   "\"same_top1\", \"ppl_a\", \"ppl_b\", \"bytes_per_token_a\", "
                   "\"bytes_per_token_b\", \"attention_cosine\", \"routed_rows\", "
                   "\"router_flips\"}");
  add_model_flags(command, flags->model);
  run_with_model(command, {flags, &flags->model}, globals,
                 [flags, &globals] { return measure(*flags, globals); });
}

}  // namespace hf2q::app
