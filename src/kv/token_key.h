#pragma once
// What a position of a sequence is known by when prompts are compared: two positions have the same
// rows in every cache if they, and all before them, have equal keys.

#include <array>
#include <cstdint>
#include <span>
#include <tuple>

namespace hf2q {

// Of all that shapes the rows of an image: its bytes, how they are prepared, the projector, and
// rows added to later layers. Equal digests mean runs of equal length.
using Digest = std::array<uint64_t, 2>;

struct TokenKey {
  enum class Kind : uint32_t {
    kToken,
    kSoft,   // a row in place of an embedding; causal
    kBlock,  // one of a run of soft rows that see each other: none is of use without all
  };

  uint32_t value = 0;  // the token id, or the index within the run of soft rows
  Kind kind = Kind::kToken;
  Digest digest = {};  // of the run of soft rows

  static TokenKey token(int32_t id) { return {static_cast<uint32_t>(id), Kind::kToken, {}}; }

  bool operator==(const TokenKey&) const = default;
  bool operator<(const TokenKey& other) const {
    return std::tie(value, kind, digest) < std::tie(other.value, other.kind, other.digest);
  }
};

// The largest position, at most `position`, before which keys can be read without those behind it:
// `position`, or the start of the block that it lies in.
inline size_t before_block(std::span<const TokenKey> keys, size_t position) {
  if (position >= keys.size() || keys[position].kind != TokenKey::Kind::kBlock) return position;
  return position - keys[position].value;
}

}  // namespace hf2q
