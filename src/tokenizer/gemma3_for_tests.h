#pragma once
// For tests and benchmarks, whose programs take no flags of ours: the tokenizer.json with Gemma 3's
// 262,144 tokens, where the environment names one.

#include <cstdlib>

namespace hf2q {

inline const char* gemma3_tokenizer_or(const char* otherwise) {
  const char* path = std::getenv("HF2Q_GEMMA3_TOKENIZER");
  return path != nullptr ? path : otherwise;
}

}  // namespace hf2q
