#include "serve/request_log.h"

#include <fmt/chrono.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/quote.h"
#include "serve/reply_parts.h"

namespace hf2q {

std::string utc_time(std::chrono::system_clock::time_point time) {
  using std::chrono::milliseconds;
  const auto whole = std::chrono::floor<std::chrono::seconds>(time);
  const auto rest = std::chrono::duration_cast<milliseconds>(time - whole);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(whole)), rest.count());
}

std::string json_log_line(const HttpLogEntry& entry, std::string_view time) {
  nlohmann::ordered_json line = {{"time", time},
                                 {"id", entry.id},
                                 {"client", entry.client},
                                 {"method", entry.method},
                                 {"path", entry.path},
                                 {"status", entry.status},
                                 {"ms", std::round(entry.milliseconds * 10) / 10},
                                 {"bytes", entry.sent_bytes}};
  if (entry.left_early) line["left_early"] = true;
  for (const auto& [name, value] : entry.notes) line[std::string(name)] = value;
  return json_text(line);
}

std::string text_log_line(const HttpLogEntry& entry, std::string_view time) {
  std::string line =
      fmt::format("{} {} {} {} {} {:.1f} ms {} bytes", time, entry.client, printable(entry.method),
                  printable(entry.path), entry.status, entry.milliseconds, entry.sent_bytes);
  if (entry.left_early) line += " left early";
  for (const auto& [name, value] : entry.notes) line += fmt::format(" {}={}", name, value);
  return line + " id=" + std::string(entry.id);
}

}  // namespace hf2q
