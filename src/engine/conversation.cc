#include "engine/conversation.h"

#include <algorithm>
#include <chrono>

namespace hf2q {

Conversation::Conversation(Engine& engine, std::string name_space)
    : engine_(&engine), name_space_(std::move(name_space)), sequence_(engine.new_sequence()) {}

void Conversation::reset() {
  sequence_.drop();
  hold({}, {});
  n_reused_ = 0;
}

Conversation Conversation::fork() const {
  Conversation copy(*engine_, name_space_);
  copy.sequence_ = sequence_.fork();
  copy.hold(ids_, keys_);
  return copy;
}

Status Conversation::truncate(uint32_t length) {
  if (const KvStatus refused = sequence_.truncate(length)) return to_error(*refused);
  hold(ids_, keys_);
  return Ok{};
}

// Of these tokens, those that the sequence has.
void Conversation::hold(std::span<const int32_t> ids, std::span<const TokenKey> keys) {
  const size_t n = sequence_.length();
  ids_ = std::vector<int32_t>(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n));
  keys_ = std::vector<TokenKey>(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(n));
}

Status Conversation::append(std::span<const int32_t> ids) {
  TRY_OK(check_prompt(*engine_, engine_->n_ctx() - ids_.size(), ids));
  std::vector<int32_t> all = ids_;
  all.insert(all.end(), ids.begin(), ids.end());
  std::vector<TokenKey> keys = keys_;
  for (const int32_t id : ids) keys.push_back(TokenKey::token(id));
  if (!sequence_.is_attached()) sequence_.attach(engine_->prefixes(), name_space_, keys);
  PromptHooks hooks;
  hooks.n_held = sequence_.length();
  Status status = read_prompt(*engine_, sequence_, all, Wants::kLogits, {}, hooks);
  hold(all, keys);
  return status;
}

// Leaves the longest beginning of a prompt in the sequence that is to be had, and at least one
// token to read.
size_t Conversation::begin_with(std::span<const TokenKey> keys) {
  const auto common = static_cast<uint32_t>(
      before_block(keys, std::min(common_prefix(keys_, keys), keys.size() - 1)));
  const bool tree_has_more = engine_->prefixes().match(name_space_, keys).k > common;
  if (!sequence_.is_attached() || tree_has_more || sequence_.truncate(common)) {
    sequence_.drop();
    sequence_.attach(engine_->prefixes(), name_space_, keys);
  }
  return sequence_.length();
}

// Reads the prompt up to `end`, with the soft rows before it.
Status Conversation::read_until(std::span<const int32_t> prompt, size_t end,
                                const GenerateOptions& options) {
  if (sequence_.length() == end) return Ok{};
  std::vector<SoftRows> soft = options.soft;
  std::erase_if(soft, [&](const SoftRows& rows) { return rows.position >= end; });
  PromptHooks hooks;
  hooks.n_held = sequence_.length();
  hooks.cancelled = options.cancelled;
  return read_prompt(*engine_, sequence_, prompt.first(end), Wants::kNothing, soft, hooks);
}

void Conversation::hold_answer(std::span<const int32_t> prompt, std::vector<TokenKey> keys,
                               const Result<Generation>& generation) {
  std::vector<int32_t> all(prompt.begin(), prompt.end());
  if (generation.ok()) {
    for (const int32_t id : generation.value().token_ids) {
      all.push_back(id);
      keys.push_back(TokenKey::token(id));
    }
  }
  // An answer that failed half-way has read tokens that it does not tell.
  if (sequence_.length() > all.size() && sequence_.truncate(static_cast<uint32_t>(all.size())))
    return reset();
  hold(all, keys);
  sequence_.mark(sequence_.length());
}

Result<Generation> Conversation::answer(std::span<const int32_t> prompt, GenerateOptions options) {
  const size_t hidden_dim = engine_->config().hidden_dim;
  TRY_OK(check_prompt(*engine_, engine_->n_ctx(), prompt));
  TRY_OK(check_soft_rows(options.soft, prompt.size(), hidden_dim, engine_->max_rows()));
  const auto start = std::chrono::steady_clock::now();
  const size_t room = answer_limit(options.n_predict, engine_->n_ctx() - prompt.size());
  options.begun.resize(std::min(options.begun.size(), room));
  std::vector<int32_t> whole(prompt.begin(), prompt.end());
  std::vector<TokenKey> keys = prompt_keys(prompt, options.soft, hidden_dim);
  for (const int32_t id : options.begun) {
    whole.push_back(id);
    keys.push_back(TokenKey::token(id));
  }
  n_reused_ = begin_with(keys);
  sequence_.mark(static_cast<uint32_t>(prompt.size()));
  hold(whole, keys);
  // The last token is read by generate(), with the block that it belongs to.
  const size_t last = before_block(keys, whole.size() - 1);
  const Status read = read_until(whole, last, options);
  hold(whole, keys);
  TRY_OK(read);
  if (ids_.size() < last) {
    sequence_.mark(sequence_.length());
    Generation nothing;
    nothing.finish_reason = "cancelled";
    return nothing;
  }
  options.n_held = last;
  const std::chrono::duration<double> before = std::chrono::steady_clock::now() - start;
  Result<Generation> generation = generate(*engine_, sequence_, prompt, options);
  keys.resize(prompt.size());
  hold_answer(prompt, std::move(keys), generation);
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
    append_rows(batch, static_cast<uint32_t>(sequences.size()),
                part.conversation->sequence_.length(), part.ids, Wants::kLogits);
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
