#include "engine/conversation.h"

#include <algorithm>
#include <chrono>

namespace hf2q {

Conversation::Conversation(Engine& engine) : engine_(&engine), sequence_(engine.new_sequence()) {}

void Conversation::reset() {
  sequence_.drop();
  resume_.reset();
  ids_.clear();
  n_reused_ = 0;
}

Conversation Conversation::fork() const {
  Conversation copy(*engine_);
  copy.sequence_ = sequence_.fork();
  copy.ids_ = ids_;
  return copy;
}

Status Conversation::truncate(uint32_t length) {
  if (const KvStatus refused = sequence_.truncate(length)) return to_error(*refused);
  ids_.resize(length);
  if (resume_ && resume_->length() > length) resume_.reset();
  return Ok{};
}

Status Conversation::append(std::span<const int32_t> ids) {
  Status status = read_prompt(*engine_, sequence_, ids, Wants::kLogits);
  const std::vector<int32_t> read(
      ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(sequence_.length() - ids_.size()));
  ids_.insert(ids_.end(), read.begin(), read.end());
  return status;
}

// What the sequence holds of the two, one after the other.
void Conversation::set_ids(std::span<const int32_t> prompt, std::span<const int32_t> answer) {
  std::vector<int32_t> all(prompt.begin(), prompt.end());
  all.insert(all.end(), answer.begin(), answer.end());
  // An answer that failed half-way has read tokens that it does not tell.
  if (sequence_.length() > all.size() && sequence_.truncate(static_cast<uint32_t>(all.size())))
    return reset();
  all.resize(sequence_.length());
  ids_ = std::move(all);
}

// Leaves a beginning of `prompt` in the sequence, and at least one token to read.
size_t Conversation::rewind(std::span<const int32_t> prompt) {
  const size_t most = std::min(ids_.size(), prompt.size() - 1);
  const auto common = static_cast<uint32_t>(
      std::mismatch(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(most), prompt.begin())
          .first -
      ids_.begin());
  if (sequence_.truncate(common)) {
    // A window has passed there. The resume point may still reach it.
    if (resume_ && !resume_->truncate(std::min(common, resume_->length()))) {
      sequence_ = resume_->fork();
    } else {
      sequence_.drop();
    }
  }
  if (resume_ && resume_->length() > sequence_.length()) resume_.reset();
  ids_.resize(sequence_.length());
  return sequence_.length();
}

Result<Generation> Conversation::answer(std::span<const int32_t> prompt, GenerateOptions options,
                                        const std::function<bool()>& cancelled) {
  TRY_OK(check_prompt(*engine_, engine_->n_ctx(), prompt));
  const auto start = std::chrono::steady_clock::now();
  n_reused_ = rewind(prompt);
  const size_t last = prompt.size() - 1;
  for (size_t at = n_reused_; at < last; at = ids_.size()) {
    if (cancelled && cancelled()) {
      Generation nothing;
      nothing.finish_reason = "cancelled";
      return nothing;
    }
    const size_t n = std::min<size_t>(last - at, engine_->max_rows());
    TRY_OK(append(prompt.subspan(at, n)));
  }
  resume_ = sequence_.fork();
  options.n_held = last;
  const std::chrono::duration<double> before = std::chrono::steady_clock::now() - start;
  Result<Generation> generation = generate(*engine_, sequence_, prompt, options);
  set_ids(prompt, generation.ok() ? std::span<const int32_t>(generation.value().token_ids)
                                  : std::span<const int32_t>());
  if (generation.ok()) generation.value().prompt_seconds += before.count();
  return generation;
}

namespace {

Status check_parts(const Engine& engine, std::span<const ConversationPart> parts) {
  if (parts.empty() || parts.size() > engine.max_outputs()) {
    return error(ErrorCode::kInvalidArgument, "batch: 1 to {} sequences expected, found {}",
                 engine.max_outputs(), parts.size());
  }
  size_t n_rows = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (parts[i].conversation == parts[j].conversation) {
        return error(ErrorCode::kInvalidArgument,
                     "batch: different sequences expected, found one as parts {} and {}", j, i);
      }
    }
    TRY_OK(
        check_prompt(engine, engine.n_ctx() - parts[i].conversation->ids().size(), parts[i].ids));
    n_rows += parts[i].ids.size();
  }
  if (n_rows > engine.max_rows()) {
    return error(ErrorCode::kInvalidArgument, "batch: at most {} tokens expected, found {}",
                 engine.max_rows(), n_rows);
  }
  return Ok{};
}

}  // namespace

Status append_all(Engine& engine, std::span<const ConversationPart> parts) {
  TRY_OK(check_parts(engine, parts));
  Batch batch;
  std::vector<Sequence*> sequences;
  for (const ConversationPart& part : parts) {
    const uint32_t length = part.conversation->sequence_.length();
    for (size_t i = 0; i < part.ids.size(); ++i) {
      BatchRow& row = batch.rows.emplace_back();
      row.sequence = static_cast<uint32_t>(sequences.size());
      row.position = length + static_cast<uint32_t>(i);
      row.token = part.ids[i];
      if (i + 1 == part.ids.size()) row.wants = Wants::kLogits;
    }
    sequences.push_back(&part.conversation->sequence_);
  }
  TRY_OK(engine.run(batch, sequences));
  for (const ConversationPart& part : parts) {
    std::vector<int32_t>& held = part.conversation->ids_;
    held.insert(held.end(), part.ids.begin(), part.ids.end());
  }
  return Ok{};
}

}  // namespace hf2q
