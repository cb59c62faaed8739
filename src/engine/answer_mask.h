#pragma once
// Which tokens an answer's grammar lets come next; all, when there is none.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "grammar/grammar.h"

namespace hf2q {

class AnswerMask {
 public:
  AnswerMask(const std::shared_ptr<const Grammar>& grammar, size_t vocab_size) {
    if (!grammar) return;
    state_.emplace(grammar);
    bits_.resize((std::max(vocab_size, grammar->vocabulary().n_tokens()) + 63) / 64);
  }

  // As SampleInput::allowed; valid until the next call.
  std::span<const uint64_t> allowed() {
    if (state_) state_->allowed(bits_);
    return bits_;
  }
  // False, and nothing changes, for a token that may not come.
  [[nodiscard]] bool accept(int32_t token) { return !state_ || state_->accept(token); }
  bool must_end() const { return state_ && state_->must_end(); }

 private:
  std::optional<GrammarState> state_;
  std::vector<uint64_t> bits_;
};

}  // namespace hf2q
