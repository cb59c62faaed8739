#include "engine/answer.h"

#include <utility>

#include "base/check.h"

namespace hf2q {

Answer::Answer(const Engine& engine, AnswerOptions options, StopMatcher stops)
    : tokenizer_(engine.tokenizer()),
      options_(std::move(options)),
      stream_(engine.tokenizer(), std::move(stops), options_.special),
      mask_(options_.grammar, engine.config().vocab_size) {
  if (options_.limit == 0) finish_reason_ = "length";
}

Result<int32_t> Answer::choose(std::span<const float> logits, std::span<const int32_t> prompt,
                               SampleScratch& scratch) {
  CHECK(goes_on());
  TRY(token,
      sample({logits, prompt, ids_, mask_.allowed(), options_.choice}, options_.sampling, scratch));
  CHECK(take(token));
  return token;
}

bool Answer::take(int32_t token) {
  CHECK(goes_on());
  if (!mask_.accept(token)) return false;
  ids_.push_back(token);
  if (!options_.ignore_eos && tokenizer_.is_stop(token)) finish_reason_ = "stop";
  return true;
}

std::string Answer::show() {
  CHECK(goes_on() && !ids_.empty());
  std::string text = stream_.push(ids_.back());
  if (stream_.stopped() || (options_.ignore_eos && mask_.must_end())) {
    finish_reason_ = "stop";
  } else if (ids_.size() == options_.limit) {
    finish_reason_ = "length";
  }
  return text;
}

}  // namespace hf2q
