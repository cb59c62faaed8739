#pragma once
// What `serve` and `batch` have in common: a service on a model, and the API on it.

#include <chrono>
#include <memory>
#include <string>

#include "base/result.h"
#include "commands.h"
#include "model_flags.h"
#include "serve/api.h"
#include "serve/service.h"

namespace hf2q::app {

struct ServeModelFlags {
  std::string name;  // empty: the file's
  std::string chat_template;
  std::string thinking = "off";
  uint32_t max_queue = 64;
};

// All but --max-queue, which is for servers.
void add_serve_model_flags(Command& command, ServeModelFlags& flags);

// What clients call the model: --alias, or the file's name without folder and ending.
std::string served_name(const ServeModelFlags& flags, const ModelFlags& model);

// Loads the model and warms up. Errors as load_engine() and Service::start().
Result<std::unique_ptr<Service>> start_service(const ModelFlags& model,
                                               const ServeModelFlags& flags,
                                               const Globals& globals);

// `start`: when loading began.
Result<std::unique_ptr<Api>> make_api(Service& service, ApiOptions options,
                                      const ServeModelFlags& flags, const SamplingFlags& sampling,
                                      const Globals& globals,
                                      std::chrono::steady_clock::time_point start);

}  // namespace hf2q::app
