#include "serve/metrics_text.h"

#include <fmt/format.h>

#include <string_view>

#include "kv/prefix_tree.h"

namespace hf2q {
namespace {

// The value of a label: backslash, quote and line feed are escaped.
std::string label_text(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || c == '"') result += '\\';
    result += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return result;
}

class MetricsWriter {
 public:
  void begin(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_ += fmt::format("# HELP hf2q_{} {}\n# TYPE hf2q_{} {}\n", name, help, name, type);
  }
  template <class Value>
  void value(Value value, const std::string& labels = "") {
    text_ += fmt::format("hf2q_{}{} {}\n", name_, labels.empty() ? "" : "{" + labels + "}", value);
  }
  template <class Value>
  void one(std::string_view name, std::string_view type, std::string_view help, Value number) {
    begin(name, type, help);
    value(number);
  }
  void histogram(std::string_view name, std::string_view help, const Histogram& histogram) {
    begin(name, "histogram", help);
    uint64_t n = 0;
    for (size_t i = 0; i < Histogram::kBounds.size(); ++i) {
      n += histogram.counts[i];
      text_ += fmt::format("hf2q_{}_bucket{{le=\"{}\"}} {}\n", name, Histogram::kBounds[i], n);
    }
    text_ += fmt::format("hf2q_{}_bucket{{le=\"+Inf\"}} {}\nhf2q_{}_sum {}\nhf2q_{}_count {}\n",
                         name, histogram.n, name, histogram.sum, name, histogram.n);
  }
  std::string text() && { return std::move(text_); }

 private:
  std::string_view name_;
  std::string text_;
};

void write_outcomes(MetricsWriter& out, const Outcomes& outcomes) {
  out.begin("requests_total", "counter",
            "Answers, embeddings and refused requests by how they ended");
  const std::pair<std::string_view, uint64_t> kAll[] = {
      {"stop", outcomes.stop},
      {"length", outcomes.length},
      {"embedding", outcomes.embedding},
      {"cancelled", outcomes.cancelled},
      {"failed", outcomes.failed},
      {"refused_context", outcomes.refused_context},
      {"refused_queue", outcomes.refused_queue},
      {"refused_other", outcomes.refused_other}};
  for (const auto& [name, n] : kAll) out.value(n, fmt::format("outcome=\"{}\"", name));
}

void write_tokens(MetricsWriter& out, const Metrics& metrics) {
  out.one("prompt_tokens_total", "counter", "Tokens of prompts", metrics.prompt_tokens);
  out.one("prompt_tokens_reused_total", "counter", "Of them, taken from the prefix tree",
          metrics.reused_tokens);
  out.one("prompt_tokens_read_total", "counter", "Rows of prompts that were computed",
          metrics.read_tokens);
  out.one("generation_tokens_total", "counter", "Tokens of answers", metrics.generated_tokens);
  out.one("prefix_queries_total", "counter", "Prompts looked up in the prefix tree",
          metrics.prefix_queries);
  out.one("prefix_hits_total", "counter", "Prompts of which a part was there", metrics.prefix_hits);
  out.begin("prefix_limit_total", "counter", "Why no more of a prompt was reused");
  for (size_t i = 0; i < kReuseLimits; ++i) {
    out.value(metrics.reuse_limits[i],
              fmt::format("reason=\"{}\"", name_of(static_cast<ReuseLimit>(i))));
  }
  out.one("preemptions_total", "counter", "Sequences set back when memory ran out",
          metrics.preemptions);
  out.one("steps_total", "counter", "Batches", metrics.steps);
}

void write_cache(MetricsWriter& out, const MetricsFacts& facts, const ServiceStats& stats) {
  uint64_t used = 0;
  out.begin("cache_bytes", "gauge", "Pages of the cache by group, format and use");
  for (size_t g = 0; g < stats.groups.size(); ++g) {
    const GroupStats& group = stats.groups[g];
    const MetricsFacts::Group& fact = facts.groups[g];
    const std::string labels = fmt::format("group=\"{}\",k_format=\"{}\",v_format=\"{}\"",
                                           fact.name, fact.k_format, fact.v_format);
    out.value(group.used_bytes - group.cached_bytes, labels + ",use=\"live\"");
    out.value(group.cached_bytes, labels + ",use=\"cached\"");
    used += group.used_bytes - group.cached_bytes;
  }
  out.one("cache_committed_bytes", "gauge", "Memory that the cache holds now",
          stats.committed_bytes);
  out.one("cache_budget_bytes", "gauge", "Most that it may hold", stats.budget_bytes);
  out.one("cache_usage_ratio", "gauge", "Share of the budget that sequences in work refer to",
          stats.budget_bytes == 0
              ? 0.0
              : static_cast<double>(used) / static_cast<double>(stats.budget_bytes));
  out.one("evicted_pages_total", "counter", "Pages given up by the prefix tree",
          stats.evicted_pages);
  out.one("evicted_points_total", "counter", "Resume points given up", stats.evicted_points);
  out.one("resume_points", "gauge", "Places where a prompt may be taken up", stats.resume_points);
}

}  // namespace

std::string metrics_text(const MetricsFacts& facts, const ServiceStats& stats) {
  MetricsWriter out;
  out.begin("build_info", "gauge", "Always 1; the labels say what runs");
  out.value(1, fmt::format("version=\"{}\",model=\"{}\"", label_text(facts.version),
                           label_text(facts.model)));
  out.one("load_seconds", "gauge", "From the start to a loaded model", facts.load_seconds);
  out.one("requests_running", "gauge", "Sequences with a place in the next batch", stats.running);
  out.one("requests_waiting", "gauge", "Sequences without: not begun, or set back", stats.waiting);
  write_outcomes(out, stats.metrics.outcomes);
  write_tokens(out, stats.metrics);
  write_cache(out, facts, stats);
  out.histogram("time_to_first_token_seconds", "From arrival to the first token of an answer",
                stats.metrics.first_token);
  out.histogram("time_per_output_token_seconds", "Between two tokens of an answer",
                stats.metrics.token);
  out.histogram("request_duration_seconds", "From arrival to the end", stats.metrics.end_to_end);
  return std::move(out).text();
}

}  // namespace hf2q
