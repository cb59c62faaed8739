#pragma once
// Reads a HuggingFace tokenizer.json of the Gemma family.
//
// Accepted is what this tokenizer does, and nothing else, so that ids never differ silently:
//   model          type BPE, byte_fallback true, ignore_merges false, no dropout, no affixes;
//                  vocab {text: id}, merges as ["left right", ...] or [["left", "right"], ...]
//   normalizer     Replace " " by U+2581
//   pre_tokenizer  none, or Split on " " (which no longer occurs after the normalizer)
//   decoder        Sequence of Replace U+2581 by " ", ByteFallback, Fuse
//   added_tokens   without lstrip, rstrip, single_word
// The ids of vocab and added_tokens together are 0 to n-1, each once; texts are unique, not empty
// and at most kMaxTokenBytes long.
//
// The file does not say which tokens play which part: bos, eos, pad and mask are the tokens <bos>,
// <eos>, <pad> and <mask> where they exist, unk is model.unk_token, stop ids are default_stop_ids.
// A checkpoint's other files (generation_config.json, the chat template) may say more.
//
// Types: <0xHH> byte; special control; added and not in model.vocab user-defined; the markers of
// is_output_marker user-defined; else normal.

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"
#include "tokenizer/vocabulary.h"

namespace hf2q {

// kCorrupt or kUnsupported, naming the file, the field, the expected and the found value.
Result<Vocabulary> read_tokenizer_json(const std::string& path);
// `name` stands for the path in errors.
Result<Vocabulary> parse_tokenizer_json(std::span<const std::byte> bytes, const std::string& name);

}  // namespace hf2q
