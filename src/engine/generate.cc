#include "engine/generate.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/check.h"
#include "engine/answer.h"

namespace hf2q {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Digest digest_of(const SoftRows& soft, size_t hidden_dim) {
  if (soft.digest != Digest{}) return soft.digest;
  const XXH128_hash_t hash =
      XXH3_128bits(soft.values.data(), soft.n_rows * hidden_dim * sizeof(float));
  return {hash.high64, hash.low64};
}

std::vector<TokenKey> soft_keys(const SoftRows& soft, size_t hidden_dim) {
  const auto kind = soft.block ? TokenKey::Kind::kBlock : TokenKey::Kind::kSoft;
  std::vector<TokenKey> keys(soft.n_rows, {0, kind, digest_of(soft, hidden_dim)});
  for (uint32_t i = 0; i < soft.n_rows; ++i) keys[i].value = i;
  return keys;
}

// The soft rows of all ranges as one matrix, and for each prompt position its row and block.
struct SoftIndex {
  std::vector<float> values;
  std::vector<TokenKey> keys;  // of the rows
  std::vector<int32_t> row;    // [n_prompt], -1: none
  std::vector<int32_t> block;  // [n_prompt], -1: none
};

SoftIndex index_soft(std::span<const SoftRows> soft, size_t n_prompt, size_t hidden_dim) {
  SoftIndex index;
  index.row.assign(n_prompt, -1);
  index.block.assign(n_prompt, -1);
  int32_t next = 0;
  for (size_t s = 0; s < soft.size(); ++s) {
    const auto values = std::span(soft[s].values).first(soft[s].n_rows * hidden_dim);
    index.values.insert(index.values.end(), values.begin(), values.end());
    const std::vector<TokenKey> keys = soft_keys(soft[s], hidden_dim);
    index.keys.insert(index.keys.end(), keys.begin(), keys.end());
    for (uint32_t i = 0; i < soft[s].n_rows; ++i) {
      index.row[soft[s].position + i] = next++;
      if (soft[s].block) index.block[soft[s].position + i] = static_cast<int32_t>(s);
    }
  }
  return index;
}

// Where a batch that begins at `at` ends: its full size, or further, to the end of a block.
size_t batch_end(const SoftIndex& soft, size_t at, size_t max_rows, size_t n_prompt) {
  size_t end = std::min(at + max_rows, n_prompt);
  if (end == n_prompt || soft.block[end] < 0 || soft.block[end] != soft.block[end - 1]) return end;
  // Cut before the block when something else comes first in the batch.
  size_t begin = end;
  while (begin > at && soft.block[begin - 1] == soft.block[end]) --begin;
  if (begin > at) return begin;
  while (end < n_prompt && soft.block[end] == soft.block[begin]) ++end;
  return end;
}

// Adds `piece` to the text; false when its reader wants no more.
bool show(const GenerateOptions& options, const std::string& piece, std::string& text) {
  text += piece;
  return piece.empty() || !options.on_text || options.on_text(piece);
}

}  // namespace

Status check_prompt(const Engine& engine, size_t room, std::span<const int32_t> ids) {
  if (ids.empty())
    return error(ErrorCode::kInvalidArgument, "prompt: at least one token expected, found none");
  for (const int32_t id : ids) {
    if (!engine.tokenizer().has(id)) {
      return error(ErrorCode::kInvalidArgument, "prompt: token ids from 0 to {} expected, found {}",
                   engine.tokenizer().n_tokens() - 1, id);
    }
  }
  if (ids.size() > room) {
    return error(ErrorCode::kInvalidArgument,
                 "prompt: at most {} tokens expected (the context), found {}", room, ids.size());
  }
  return Ok{};
}

Status check_finite(std::string_view what, std::span<const float> values) {
  const auto bad = std::ranges::find_if(values, [](float x) { return !std::isfinite(x); });
  if (bad == values.end()) return Ok{};
  return error(ErrorCode::kCorrupt, "{}: finite numbers expected, value {} is {}", what,
               bad - values.begin(), *bad);
}

Status check_soft_rows(std::span<const SoftRows> soft, size_t n_prompt, size_t hidden_dim,
                       size_t max_rows) {
  for (const SoftRows& rows : soft) {
    const size_t end = size_t{rows.position} + rows.n_rows;
    if (end > n_prompt) {
      return error(ErrorCode::kInvalidArgument,
                   "soft rows [{}, {}): positions below {} expected (the prompt)", rows.position,
                   end, n_prompt);
    }
    if (rows.n_rows == 0) {
      return error(ErrorCode::kInvalidArgument,
                   "soft rows at {}: at least one row expected, found none", rows.position);
    }
    if (rows.block && rows.n_rows > max_rows) {
      return error(ErrorCode::kInvalidArgument,
                   "soft rows at {}: blocks of at most {} rows expected (-b), found {}",
                   rows.position, max_rows, rows.n_rows);
    }
    if (rows.values.size() < rows.n_rows * hidden_dim) {
      return error(ErrorCode::kInvalidArgument, "soft rows [{}, {}): {} values expected, found {}",
                   rows.position, end, rows.n_rows * hidden_dim, rows.values.size());
    }
  }
  for (size_t a = 0; a < soft.size(); ++a) {
    for (size_t b = a + 1; b < soft.size(); ++b) {
      if (soft[a].position < soft[b].position + soft[b].n_rows &&
          soft[b].position < soft[a].position + soft[a].n_rows) {
        return error(ErrorCode::kInvalidArgument, "soft rows at {} and at {} overlap",
                     soft[a].position, soft[b].position);
      }
    }
  }
  return Ok{};
}

std::vector<TokenKey> prompt_keys(std::span<const int32_t> ids, std::span<const SoftRows> soft,
                                  size_t hidden_dim) {
  std::vector<TokenKey> keys;
  for (const int32_t id : ids) keys.push_back(TokenKey::token(id));
  for (const SoftRows& rows : soft) {
    const std::vector<TokenKey> run = soft_keys(rows, hidden_dim);
    std::copy(run.begin(), run.end(), keys.begin() + rows.position);
  }
  return keys;
}

Status read_prompt(Engine& engine, Sequence& sequence, std::span<const int32_t> ids, Wants wants,
                   std::span<const SoftRows> soft, const PromptHooks& hooks) {
  CHECK(hooks.n_held <= sequence.length());
  TRY_OK(check_prompt(engine, engine.n_ctx() - sequence.length() + hooks.n_held, ids));
  TRY_OK(check_soft_rows(soft, ids.size(), engine.config().hidden_dim, engine.max_rows()));
  const SoftIndex index = index_soft(soft, ids.size(), engine.config().hidden_dim);
  std::optional<Sequence> exact;
  if (sequence.length() == 0) exact = engine.new_exact_sequence();
  for (size_t at = hooks.n_held; at < ids.size();) {
    if (hooks.cancelled && hooks.cancelled()) return Ok{};
    const size_t end = batch_end(index, at, engine.max_rows(), ids.size());
    CHECK(end - at <= engine.max_rows());
    Batch batch;
    batch.soft_rows = index.values;
    batch.soft_keys = index.keys;
    for (size_t i = at; i < end; ++i) {
      BatchRow& row = batch.rows.emplace_back();
      row.position = sequence.length() + static_cast<uint32_t>(i - at);
      row.soft = index.row[i];
      row.block = index.block[i];
      row.token = row.soft >= 0 ? 0 : ids[i];
      if (hooks.every_row || i + 1 == ids.size()) row.wants = wants;
    }
    Sequence* one[] = {&sequence};
    TRY_OK(engine.run(batch, one, hooks.observer, exact ? &*exact : nullptr));
    if (hooks.after_batch) hooks.after_batch();
    at = end;
  }
  return Ok{};
}

Result<SamplingParams> answer_params(const Engine& engine, SamplingParams params) {
  const std::vector<int32_t>& never = engine.tokenizer().vocabulary().suppress_ids;
  params.suppressed_tokens.insert(params.suppressed_tokens.end(), never.begin(), never.end());
  return validate(std::move(params), engine.config().vocab_size);
}

Result<Generation> generate(Engine& engine, Sequence& sequence, std::span<const int32_t> prompt,
                            const GenerateOptions& options) {
  TRY(params, answer_params(engine, options.sampling));
  TRY(stops, StopMatcher::create(options.stops));
  CHECK(options.n_held == sequence.length() || options.n_held == 0);
  const size_t before = sequence.length() - options.n_held;
  TRY_OK(check_prompt(engine, engine.n_ctx() - before, prompt));
  const size_t limit = answer_limit(options.n_predict, engine.n_ctx() - before - prompt.size());
  Answer answer(engine,
                {std::move(params), limit, options.ignore_eos, options.grammar, options.special},
                std::move(stops));
  Generation result;
  bool cancelled = false;
  bool refused = false;  // on_text wants no more
  // Whether another token follows the one that was chosen last.
  const auto tell = [&](int32_t token) {
    if (!answer.goes_on()) return false;
    cancelled = options.on_token && !options.on_token(token);
    if (cancelled) return false;
    refused = !show(options, answer.show(), result.text);
    cancelled = refused && !answer.stopped_by_text();
    return !cancelled && answer.goes_on();
  };
  const Clock::time_point start = Clock::now();
  std::vector<int32_t> whole(prompt.begin(), prompt.end());
  bool is_over = false;
  for (size_t i = 0; i < options.begun.size() && answer.goes_on() && !is_over; ++i) {
    if (!answer.take(options.begun[i])) {
      return error(ErrorCode::kCorrupt, "answer: token {} of it is not what its grammar lets come",
                   i);
    }
    whole.push_back(options.begun[i]);
    is_over = !tell(options.begun[i]);
  }
  if (!is_over) {
    PromptHooks hooks;
    hooks.n_held = options.n_held;
    hooks.cancelled = options.cancelled;
    TRY_OK(read_prompt(engine, sequence, whole, Wants::kLogits, options.soft, hooks));
    is_over = cancelled = sequence.length() < before + whole.size();
  }
  result.prompt_seconds = seconds_since(start);
  SampleScratch scratch;
  Clock::time_point first = Clock::now();
  while (!is_over && answer.goes_on()) {
    TRY(token, answer.choose(engine.logits(), prompt, scratch));
    if (answer.ids().size() == options.begun.size() + 1) {
      first = Clock::now();
      result.prompt_seconds = seconds_since(start);
    }
    is_over = !tell(token);
    if (is_over) break;
    Batch batch;
    append_rows(batch, 0, sequence.length(), std::span(&token, 1), Wants::kLogits);
    Sequence* one[] = {&sequence};
    TRY_OK(engine.run(batch, one));
  }
  result.token_ids.assign(answer.ids().begin(), answer.ids().end());
  result.n_begun = std::min(options.begun.size(), result.token_ids.size());
  result.finish_reason = cancelled ? "cancelled" : answer.finish_reason();
  if (!refused) (void)show(options, answer.finish(), result.text);
  result.answer_seconds = seconds_since(first);
  return result;
}

}  // namespace hf2q
