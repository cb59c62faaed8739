#include "serve_flags.h"

#include <algorithm>
#include <filesystem>
#include <utility>

namespace hf2q::app {

void add_serve_model_flags(Command& command, ServeModelFlags& flags) {
  const char* group = "API";
  command
      .add_option("-a,--alias,--served-model-name", flags.name,
                  "What clients call the model (default: the name of the file)")
      .group(group);
  command
      .add_option("--chat-template,--chat-template-file", flags.chat_template,
                  "File with a Jinja template, instead of the model's")
      .group(group);
  command.add_option("--thinking", flags.thinking, "Where a request does not say: on or off")
      .one_of({"on", "off"})
      .show_default()
      .group(group);
}

std::string served_name(const ServeModelFlags& flags, const ModelFlags& model) {
  if (!flags.name.empty()) return flags.name;
  return std::filesystem::path(model.model).stem().string();
}

Result<std::unique_ptr<Service>> start_service(const ModelFlags& model,
                                               const ServeModelFlags& flags,
                                               const Globals& globals) {
  if (model.n_slots > model.max_rows) {
    return error(ErrorCode::kInvalidArgument,
                 "--slots: at most {} expected (--batch-size), found {}", model.max_rows,
                 model.n_slots);
  }
  TRY(engine, load_engine(model, globals, model.n_slots));
  return Service::start(std::move(engine),
                        {.max_running = model.n_slots, .max_queue = flags.max_queue});
}

Result<std::unique_ptr<Api>> make_api(Service& service, ApiOptions options,
                                      const ServeModelFlags& flags, const SamplingFlags& sampling,
                                      const Globals& globals,
                                      std::chrono::steady_clock::time_point start) {
  const Engine& engine = service.engine();
  TRY(jinja, chat_template_from(flags.chat_template, engine, globals));
  TRY(params, sampling_params(sampling, engine.file()));
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  options.load_seconds = taken.count();
  auto api = std::make_unique<Api>(service, std::move(options), std::move(jinja));
  if (!sampling.seed.empty()) api->defaults.seed = params.seed;
  api->defaults.sampling = std::move(params);
  api->defaults.enable_thinking = flags.thinking == "on";
  return api;
}

}  // namespace hf2q::app
