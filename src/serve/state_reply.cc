#include "serve/state_reply.h"

namespace hf2q {
namespace {

using nlohmann::ordered_json;

uint64_t n_parameters(const GgufFile& file) {
  uint64_t n = 0;
  for (const GgufTensor& tensor : file.tensors()) n += tensor.n_elements();
  return n;
}

ordered_json cache_json(const Engine& engine) {
  ordered_json groups = ordered_json::array();
  for (const MemoryPlan::Group& group : engine.memory().groups) {
    groups.push_back({{"window", group.window},
                      {"n_layers", group.n_layers},
                      {"k_format", kv_format_info(group.layout.k_format).name},
                      {"v_format", kv_format_info(group.layout.v_format).name},
                      {"page_bytes", group.layout.page_bytes()},
                      {"bytes_at_rest", group.bytes_at_rest}});
  }
  return {{"budget_bytes", engine.memory().kv_budget}, {"groups", std::move(groups)}};
}

ordered_json sampling_json(const SamplingParams& params) {
  return {{"temperature", params.temperature},
          {"top_k", params.top_k},
          {"top_p", params.top_p},
          {"min_p", params.min_p},
          {"repeat_penalty", params.repeat_penalty},
          {"presence_penalty", params.presence_penalty},
          {"frequency_penalty", params.frequency_penalty}};
}

}  // namespace

ordered_json model_json(const Api& api) {
  const Engine& engine = api.service.engine();
  return {{"id", api.options.model_name},
          {"object", "model"},
          {"created", api.created},
          {"owned_by", "hf2q"},
          {"meta",
           {{"n_ctx", engine.n_ctx()},
            {"n_ctx_train", engine.config().n_ctx_train},
            {"n_params", n_parameters(engine.file())},
            {"n_vocab", engine.config().vocab_size},
            {"n_embd", engine.config().hidden_dim},
            {"size_bytes", engine.file().file_bytes()}}}};
}

ordered_json props_json(const Api& api) {
  const Engine& engine = api.service.engine();
  return {{"model", api.options.model_name},
          {"n_ctx", engine.n_ctx()},
          {"max_length", api.service.max_length()},
          {"total_slots", api.service.options().max_running},
          {"max_queue", api.service.options().max_queue},
          {"cache", cache_json(engine)},
          {"default_generation_settings", sampling_json(api.defaults.sampling)},
          {"chat_template", api.jinja.text()},
          {"build", {{"version", api.options.version}, {"fingerprint", api.fingerprint}}}};
}

ordered_json slots_json(const ServiceStats& stats) {
  ordered_json slots = ordered_json::array();
  for (const SequenceStats& one : stats.sequences) {
    slots.push_back({{"request", one.request},
                     {"answer", one.answer},
                     {"state", one.running ? "running" : "waiting"},
                     {"task", one.embedding ? "embedding" : "completion"},
                     {"n_prompt", one.n_prompt},
                     {"n_cached", one.n_cached},
                     {"n_held", one.n_held},
                     {"n_answered", one.n_answered}});
  }
  return slots;
}

MetricsFacts metrics_facts(const Api& api) {
  MetricsFacts facts;
  facts.version = api.options.version;
  facts.model = api.options.model_name;
  facts.load_seconds = api.options.load_seconds;
  for (const MemoryPlan::Group& group : api.service.engine().memory().groups) {
    facts.groups.push_back({group.window == 0 ? "full" : fmt::format("window_{}", group.window),
                            std::string(kv_format_info(group.layout.k_format).name),
                            std::string(kv_format_info(group.layout.v_format).name)});
  }
  return facts;
}

}  // namespace hf2q
