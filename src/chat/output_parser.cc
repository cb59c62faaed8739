#include "chat/output_parser.h"

#include <algorithm>
#include <utility>

#include "chat/tool_call.h"

namespace hf2q {
namespace {

using Kind = OutputEvent::Kind;

struct Marker {
  std::string_view text;
  int32_t MarkerIds::*id;
};
constexpr Marker kMarkers[] = {
    {"<|tool_call>", &MarkerIds::tool_call_begin},
    {"<tool_call|>", &MarkerIds::tool_call_end},
    {"<|tool_response>", &MarkerIds::tool_response_begin},
    {"<tool_response|>", &MarkerIds::tool_response_end},
    {"<|\"|>", &MarkerIds::quote},
    {"<|channel>", &MarkerIds::channel_begin},
    {"<channel|>", &MarkerIds::channel_end},
    {"<|turn>", &MarkerIds::turn_begin},
    {"<turn|>", &MarkerIds::turn_end},
};

constexpr std::string_view kThought = "thought";

// With quote markers as plain quotes.
std::string readable(std::string text) {
  std::replace(text.begin(), text.end(), kQuoteMark, '"');
  return text;
}

// The piece of a body; what could be taken for a quote marker becomes U+FFFD.
void append_to_body(std::string& body, std::string_view piece) {
  for (const char c : piece) {
    if (c == kQuoteMark) {
      body += "\xEF\xBF\xBD";
    } else {
      body += c;
    }
  }
}

}  // namespace

MarkerIds find_markers(const std::function<std::optional<int32_t>(std::string_view)>& id_of) {
  MarkerIds ids;
  for (const Marker& marker : kMarkers) ids.*marker.id = id_of(marker.text).value_or(-1);
  return ids;
}

bool is_marker(const MarkerIds& markers, int32_t id) {
  return id >= 0 && std::any_of(std::begin(kMarkers), std::end(kMarkers),
                                [&](const Marker& marker) { return markers.*marker.id == id; });
}

OutputParser::OutputParser(const MarkerIds& markers, bool in_thought)
    : markers_(markers), state_(in_thought ? State::kReasoning : State::kContent) {}

std::vector<OutputEvent> OutputParser::on_token(int32_t id, std::string_view piece) {
  std::vector<OutputEvent> events;
  if (id < 0 || !on_marker(id, events)) on_text(piece, events);
  return events;
}

std::vector<OutputEvent> OutputParser::finish() {
  std::vector<OutputEvent> events;
  end_state(events);
  return events;
}

// Whether `id` is a marker, which then has been dealt with.
bool OutputParser::on_marker(int32_t id, std::vector<OutputEvent>& events) {
  if (id == markers_.quote) {
    if (state_ == State::kCall) {
      held_ += kQuoteMark;
    } else {
      on_text("\"", events);
    }
    return true;
  }
  if (id == markers_.tool_call_end && state_ == State::kCall) {
    end_call(events);
    return true;
  }
  if (id == markers_.tool_call_begin || id == markers_.channel_begin) {
    end_state(events);
    state_ = id == markers_.tool_call_begin ? State::kCall : State::kChannelName;
    return true;
  }
  if (id == markers_.channel_end &&
      (state_ == State::kReasoning || state_ == State::kChannelName)) {
    end_state(events);
    return true;
  }
  return is_marker(markers_, id);
}

void OutputParser::on_text(std::string_view text, std::vector<OutputEvent>& events) {
  switch (state_) {
    case State::kContent:
      add_content(text, events);
      return;
    case State::kCall:
      append_to_body(held_, text);
      return;
    case State::kReasoning:
      add_reasoning(text, events);
      return;
    case State::kChannelName:
      held_ += text;
      const size_t newline = held_.find('\n');
      if (newline == held_.npos) return;
      const std::string rest = held_.substr(newline + 1);
      held_.clear();
      state_ = State::kReasoning;
      add_reasoning(rest, events);
  }
}

void OutputParser::add_content(std::string_view text, std::vector<OutputEvent>& events) {
  if (after_marker_) {
    held_ += text;
    const size_t begin = held_.find_first_not_of(" \t\r\n");
    if (begin == held_.npos) return;
    events.push_back({Kind::kContent, held_.substr(begin)});
    held_.clear();
    after_marker_ = false;
  } else if (!text.empty()) {
    events.push_back({Kind::kContent, std::string(text)});
  }
}

// The last newline is held back: it may stand before the end of the thought.
void OutputParser::add_reasoning(std::string_view text, std::vector<OutputEvent>& events) {
  std::string piece = std::exchange(held_, {});
  piece += text;
  if (piece.ends_with('\n')) {
    piece.pop_back();
    held_.assign(1, '\n');
  }
  if (!piece.empty()) events.push_back({Kind::kReasoning, std::move(piece)});
}

// What was held back comes out, is dropped, or is a call that was cut off; content follows.
void OutputParser::end_state(std::vector<OutputEvent>& events) {
  const std::string held = std::exchange(held_, {});
  const State ended = std::exchange(state_, State::kContent);
  if (ended == State::kCall) {
    after_marker_ = false;
    add_content(readable(held), events);
  } else if (ended == State::kChannelName && !kThought.starts_with(held)) {
    events.push_back({Kind::kReasoning, held});
  }
  if (ended == State::kReasoning || ended == State::kChannelName) after_marker_ = true;
}

void OutputParser::end_call(std::vector<OutputEvent>& events) {
  std::optional<ToolCall> call = parse_tool_call(held_);
  if (!call) return end_state(events);
  held_.clear();
  state_ = State::kContent;
  after_marker_ = true;
  const int index = n_calls_++;
  events.push_back({Kind::kCallBegin, std::move(call->name), index});
  events.push_back({Kind::kArguments, std::move(call->arguments), index});
  events.push_back({Kind::kCallEnd, {}, index});
}

}  // namespace hf2q
