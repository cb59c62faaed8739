#include "engine/text_score.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "sample/log_probs.h"

namespace hf2q {
namespace {

// One context, read chunk by chunk.
class Reader {
 public:
  Reader(Engine& engine, const Observer* observer, std::span<const int32_t> ids)
      : engine_(engine), observer_(observer), ids_(ids), sequence_(engine.new_sequence()) {}

  // Reads tokens [at, end); each that has a next one leaves its logits behind.
  Status read(size_t at, size_t end) {
    batch_.rows.clear();
    for (size_t i = at; i < end; ++i) {
      BatchRow& row = batch_.rows.emplace_back();
      row.position = static_cast<uint32_t>(i);
      row.token = ids_[i];
      row.wants = i + 1 < ids_.size() ? Wants::kLogits : Wants::kNothing;
    }
    Sequence* one[] = {&sequence_};
    return engine_.run(batch_, one, observer_);
  }
  std::span<const float> logits(size_t row) const {
    const size_t vocab = engine_.config().vocab_size;
    return engine_.logits().subspan(row * vocab, vocab);
  }

 private:
  Engine& engine_;
  const Observer* observer_;
  std::span<const int32_t> ids_;
  Sequence sequence_;
  Batch batch_;
};

// Gets, for one token that is predicted, the row of logits of each model.
using Visit = std::function<Status(std::span<const std::span<const float>> logits, int32_t next)>;

// A model that reads the text.
struct Subject {
  Engine* engine;
  const Observer* observer = nullptr;
};

Status read_context(std::span<const Subject> subjects, std::span<const int32_t> ids, size_t chunk,
                    const Visit& visit) {
  std::vector<Reader> readers;
  for (const Subject& subject : subjects) {
    readers.emplace_back(*subject.engine, subject.observer, ids);
  }
  std::vector<std::span<const float>> rows(readers.size());
  for (size_t at = 0; at < ids.size(); at += chunk) {
    const size_t end = std::min(at + chunk, ids.size());
    for (Reader& reader : readers) TRY_OK(reader.read(at, end));
    for (size_t i = at; i < end && i + 1 < ids.size(); ++i) {
      for (size_t r = 0; r < readers.size(); ++r) rows[r] = readers[r].logits(i - at);
      TRY_OK(visit(rows, ids[i + 1]));
    }
  }
  return Ok{};
}

Status check_text(const Engine& engine, std::span<const int32_t> ids, size_t n_ctx) {
  if (ids.size() < 2 || n_ctx < 2) {
    return error(ErrorCode::kInvalidArgument,
                 "text: at least 2 tokens expected, found {} in contexts of {}", ids.size(), n_ctx);
  }
  for (const int32_t id : ids) {
    if (!engine.tokenizer().has(id)) {
      return error(ErrorCode::kInvalidArgument, "text: token ids from 0 to {} expected, found {}",
                   engine.tokenizer().n_tokens() - 1, id);
    }
  }
  return Ok{};
}

Status read_text(std::span<const Subject> subjects, std::span<const int32_t> ids,
                 const Visit& visit) {
  size_t n_ctx = subjects.front().engine->n_ctx();
  size_t chunk = subjects.front().engine->max_rows();
  for (const Subject& subject : subjects) {
    n_ctx = std::min<size_t>(n_ctx, subject.engine->n_ctx());
    chunk = std::min<size_t>(chunk, subject.engine->max_rows());
    TRY_OK(check_text(*subject.engine, ids, n_ctx));
  }
  for (size_t at = 0; at + 1 < ids.size(); at += n_ctx) {
    TRY_OK(read_context(subjects, ids.subspan(at, std::min(n_ctx, ids.size() - at)), chunk, visit));
  }
  return Ok{};
}

}  // namespace

Result<TextScore> score_text(Engine& engine, std::span<const int32_t> ids) {
  TextScore score = {};
  double sum = 0;
  const Subject one[] = {{&engine}};
  TRY_OK(read_text(one, ids, [&](auto logits, int32_t next) -> Status {
    TRY(probabilities, log_probs(logits[0], next, 0));
    sum -= probabilities.chosen.log_prob;
    ++score.n_tokens;
    return Ok{};
  }));
  score.mean_nll = sum / static_cast<double>(score.n_tokens);
  return score;
}

Result<Divergence> compare_on_text(Engine& a, Engine& b, std::span<const int32_t> ids,
                                   const Observer* observer_a, const Observer* observer_b) {
  if (a.config().vocab_size != b.config().vocab_size) {
    return error(ErrorCode::kInvalidArgument, "{}: {} tokens expected as in {}, found {}",
                 b.file().path(), a.config().vocab_size, a.file().path(), b.config().vocab_size);
  }
  std::vector<RowDivergence> rows;
  const Subject both[] = {{&a, observer_a}, {&b, observer_b}};
  TRY_OK(read_text(both, ids, [&](auto logits, int32_t next) -> Status {
    TRY(row, compare_rows(logits[0], logits[1], next));
    rows.push_back(row);
    return Ok{};
  }));
  return summarize(rows);
}

}  // namespace hf2q
