#pragma once
// Cache rows that tell where they come from, for tests: every value of a row is a function of all
// keys up to its position, of group, layer, plane, head and index, as in a model.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "kv/prefix_tree.h"
#include "kv/sequence.h"

namespace hf2q {

inline uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// The keys of a sequence, and for each position a hash of those up to it.
struct History {
  std::vector<TokenKey> keys;
  std::vector<uint64_t> hashes;

  void append(const TokenKey& key) {
    uint64_t hash = hashes.empty() ? 1 : hashes.back();
    for (uint64_t part :
         {uint64_t{key.value}, static_cast<uint64_t>(key.kind), key.digest[0], key.digest[1]}) {
      hash = mix(hash + part * 0x9E3779B97F4A7C15 + 1);
    }
    keys.push_back(key);
    hashes.push_back(hash);
  }
  void cut(size_t n) {
    keys.resize(n);
    hashes.resize(n);
  }
  size_t size() const { return keys.size(); }
};

inline History history_of(std::span<const TokenKey> keys) {
  History history;
  for (const TokenKey& key : keys) history.append(key);
  return history;
}

inline std::vector<TokenKey> token_keys(std::span<const int32_t> ids) {
  std::vector<TokenKey> keys;
  for (int32_t id : ids) keys.push_back(TokenKey::token(id));
  return keys;
}

// first, first + 1, ...
inline std::vector<TokenKey> count_keys(int32_t first, size_t n) {
  std::vector<TokenKey> keys;
  for (size_t i = 0; i < n; ++i) keys.push_back(TokenKey::token(first + static_cast<int32_t>(i)));
  return keys;
}

inline std::vector<TokenKey> image_keys(uint64_t digest, uint32_t n) {
  std::vector<TokenKey> keys;
  for (uint32_t i = 0; i < n; ++i) keys.push_back({i, TokenKey::Kind::kBlock, {digest, 7}});
  return keys;
}

inline std::vector<TokenKey> joined(std::vector<TokenKey> a, std::span<const TokenKey> b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Value `i` of a row, in [-1, 1).
inline float row_value(uint64_t hash, size_t g, size_t layer, bool is_v, size_t head, size_t i) {
  const uint64_t bits = mix(hash + ((((g * 16 + layer) * 2 + is_v) * 16 + head) * 4096 + i) * 31);
  return static_cast<float>(static_cast<int32_t>(bits >> 40) - (1 << 23)) / (1 << 23);
}

template <class F>  // f(row's floats, layer, is_v, head) for F32 rows of one position
void for_each_row(const PageLayout& layout, std::byte* page, uint32_t position, F f) {
  for (size_t layer = 0; layer < layout.n_layers; ++layer) {
    for (const bool is_v : {false, true}) {
      std::byte* plane = page + (is_v ? layout.v_codes(layer) : layout.k_codes(layer));
      for (size_t head = 0; head < layout.n_kv_heads; ++head) {
        const size_t row = head * layout.page_positions + position % layout.page_positions;
        f(reinterpret_cast<float*>(plane + row * layout.k_row_bytes()), layer, is_v, head);
      }
    }
  }
}

inline void write_row(const PageLayout& layout, std::byte* page, size_t g, uint32_t position,
                      uint64_t hash) {
  for_each_row(layout, page, position, [&](float* row, size_t layer, bool is_v, size_t head) {
    for (size_t i = 0; i < layout.head_dim; ++i) {
      row[i] = row_value(hash, g, layer, is_v, head, i);
    }
  });
}

inline void write_position(const Pool& pool, const Sequence& sequence, uint32_t position,
                           uint64_t hash) {
  for (size_t g = 0; g < pool.n_groups(); ++g) {
    const PageLayout& layout = pool.group(g).layout;
    write_row(layout, sequence.pages(g)[position / layout.page_positions], g, position, hash);
  }
}

// Rows of positions [begin, end) of group g hold what was written for this history, bit for bit.
inline void expect_rows(const Pool& pool, const Sequence& sequence, const History& history,
                        size_t g, uint32_t begin, uint32_t end) {
  const PageLayout& layout = pool.group(g).layout;
  for (uint32_t p = begin; p < end; ++p) {
    std::byte* page = sequence.pages(g)[p / layout.page_positions];
    ASSERT_NE(page, nullptr) << "group " << g << " position " << p;
    for_each_row(layout, page, p, [&](const float* row, size_t layer, bool is_v, size_t head) {
      for (size_t i = 0; i < layout.head_dim; ++i) {
        ASSERT_EQ(row[i], row_value(history.hashes[p], g, layer, is_v, head, i))
            << "group " << g << " position " << p;
      }
    });
  }
}

// All that a query at the end reads, and all that is resident besides.
inline void expect_holds(const Pool& pool, const Sequence& sequence, const History& history) {
  ASSERT_EQ(sequence.length(), history.size());
  for (size_t g = 0; g < pool.n_groups(); ++g) {
    const uint64_t needed = first_needed(pool.group(g).window, sequence.length(), 0);
    ASSERT_LE(sequence.first_resident(g), needed);
    expect_rows(pool, sequence, history, g, sequence.first_resident(g), sequence.length());
  }
}

// Two layers with a window of 4, a full layer, and a layer with a window of 9.
inline std::vector<KvGroup> cache_groups(uint32_t page_positions) {
  const KvLayerSpec layers[] = {{4, 2, 16}, {0, 2, 16}, {4, 2, 16}, {9, 2, 16}};
  const KvFormats formats = {KvFormat::kF32, KvFormat::kF32, KvFormat::kF32, KvFormat::kF32};
  return plan_kv(layers, formats, page_positions).value().groups;
}

}  // namespace hf2q
