#pragma once
// What a server says of its model and of this moment.

#include <nlohmann/json.hpp>

#include "serve/api.h"
#include "serve/metrics_text.h"
#include "serve/reply_parts.h"

namespace hf2q {

// {id, object, created, owned_by, meta}
nlohmann::ordered_json model_json(const Api& api);
// Context, most requests at once, cache formats and bytes, chat template, build.
nlohmann::ordered_json props_json(const Api& api);
// One object for each sequence that runs or waits. No text.
nlohmann::ordered_json slots_json(const ServiceStats& stats);
MetricsFacts metrics_facts(const Api& api);

}  // namespace hf2q
