#include "engine/output_reader.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace hf2q {

MarkerIds output_markers(const Tokenizer& tokenizer) {
  return find_markers([&](std::string_view text) -> std::optional<int32_t> {
    const int32_t id = tokenizer.find(text);
    return id == kNoToken ? std::nullopt : std::optional(id);
  });
}

void OutputReader::add(int32_t marker, std::string text) {
  if (text.empty()) return;
  n_held_ += text.size();
  pieces_.push_back({marker, std::move(text)});
}

// Before the text of a marker comes that of the byte tokens in front of it.
void OutputReader::push(int32_t id) {
  std::string text = decoder_.push(id);
  if (!is_marker(markers_, id)) return add(kNoMarker, std::move(text));
  std::string own = tokenizer_.token_text(id);
  if (!text.ends_with(own)) return add(kNoMarker, std::move(text));  // it is hidden
  text.resize(text.size() - own.size());
  add(kNoMarker, std::move(text));
  add(id, std::move(own));
}

std::vector<OutputEvent> OutputReader::show(size_t n_bytes) {
  n_sure_ += std::min(n_bytes, n_held_ - n_sure_);
  std::vector<OutputEvent> events;
  while (n_sure_ > 0) {
    Piece& piece = pieces_.front();
    if (piece.marker != kNoMarker && n_sure_ < piece.text.size()) break;
    const size_t n = std::min(n_sure_, piece.text.size());
    for (OutputEvent& event : parser_.on_token(piece.marker, piece.text.substr(0, n))) {
      events.push_back(std::move(event));
    }
    n_sure_ -= n;
    n_held_ -= n;
    piece.text.erase(0, n);
    if (piece.text.empty()) pieces_.pop_front();
  }
  return events;
}

std::vector<OutputEvent> OutputReader::finish(size_t n_bytes) {
  add(kNoMarker, decoder_.finish());
  std::vector<OutputEvent> events = show(n_bytes);
  for (OutputEvent& event : parser_.finish()) events.push_back(std::move(event));
  return events;
}

}  // namespace hf2q
