#pragma once
// How much of the cache a sequence needs, in pages of each group.

#include <cstdint>
#include <vector>

#include "engine/engine.h"

namespace hf2q {

// Pages that a sequence with n_held tokens in the cache takes until it holds n_tokens, and one in
// each group to grow into. Those that it holds, shared or not, are not among them.
std::vector<uint64_t> pages_to_go(const Engine& engine, uint32_t n_held, uint32_t n_tokens);

// Most tokens of a sequence: the context, or what the cache can hold when nothing else is in it,
// a page that is copied before it is written included.
uint32_t longest_sequence(Engine& engine);

}  // namespace hf2q
