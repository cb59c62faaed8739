#pragma once
// The numbers of a server as Prometheus reads them (text format 0.0.4).

#include <string>
#include <vector>

#include "serve/metrics.h"

namespace hf2q {

// What does not change while the server runs; labels.
struct MetricsFacts {
  struct Group {
    std::string name;
    std::string k_format;
    std::string v_format;
  };
  std::string version;
  std::string model;
  double load_seconds = 0;
  std::vector<Group> groups;  // as ServiceStats::groups
};

std::string metrics_text(const MetricsFacts& facts, const ServiceStats& stats);

}  // namespace hf2q
