#pragma once
// What one forward pass computes: rows of several sequences, in any mixture of prompt chunks and
// single decode steps. Prompts, decoding, verification of drafts, embeddings: all are batches.

#include <cstdint>
#include <span>
#include <vector>

#include "kv/token_key.h"

namespace hf2q {

enum class Wants : uint8_t {
  kNothing,  // only its K and V
  kLogits,
  kHidden,  // the final hidden state, after the last norm
};

struct BatchRow {
  uint32_t sequence = 0;  // index into the list of sequences that goes with the batch
  uint32_t position = 0;  // counts the tokens of the sequence; ascending within it, without gaps
  int32_t token = 0;      // also looked up for per-layer inputs; 0 under a soft row
  int32_t soft = -1;      // row of Batch::soft_rows that replaces the embedding, or -1
  // Numbers a run of image rows that see each other in both directions on sliding layers, or -1.
  // A run is never split over batches. Runs that follow one another in a sequence have different
  // numbers, in different batches too: Engine::run refuses a batch that begins with the number of
  // the sequence's last row.
  int32_t block = -1;
  Wants wants = Wants::kNothing;
};

// values[i] is added to the residual stream of row rows[i] after layer `layer`, as it is.
struct Addition {
  uint32_t layer = 0;
  std::vector<uint32_t> rows;     // indices into Batch::rows, ascending, none twice
  std::span<const float> values;  // [rows.size(), hidden]
};

// Rotary positions with several axes (image grids of sister models). Empty: BatchRow::position.
struct RotaryPositions {
  uint32_t n_axes = 0;
  std::vector<int64_t> positions;     // [rows, n_axes]
  std::vector<uint8_t> axis_of_pair;  // for pair i of a head: entry i modulo the number of entries
};

struct Batch {
  std::vector<BatchRow> rows;
  std::span<const float> soft_rows;     // [n, hidden], unscaled
  std::span<const TokenKey> soft_keys;  // [n], for sequences that are attached to a prefix tree
  std::vector<Addition> additions;
  RotaryPositions rotary;
};

// Adds rows of the tokens `ids` from `position` on; the last one of them wants `last`.
inline void append_rows(Batch& batch, uint32_t sequence, uint32_t position,
                        std::span<const int32_t> ids, Wants last) {
  for (const int32_t id : ids) {
    BatchRow& row = batch.rows.emplace_back();
    row.sequence = sequence;
    row.position = position++;
    row.token = id;
  }
  if (!ids.empty()) batch.rows.back().wants = last;
}

}  // namespace hf2q
