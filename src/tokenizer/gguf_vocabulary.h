#pragma once
// The vocabulary in the metadata of a GGUF file.
//
//   tokenizer.ggml.model               string  "gemma4"; "llama" too is read when there are merges
//   tokenizer.ggml.tokens              strings, in id order
//   tokenizer.ggml.scores              f32s, all -1000: nothing uses them, other readers want them
//   tokenizer.ggml.token_type          i32s, TokenType
//   tokenizer.ggml.merges              strings in rank order: left half, a space, right half; the
//                                      first space that is not the first byte parts them, and a
//                                      space inside of a half is written as U+0120
//   tokenizer.ggml.{bos,eos,unknown,padding,mask}_token_id    u32
//   tokenizer.chat_template            string
//   tokenizer.ggml.add_space_prefix    bool    false
//   tokenizer.ggml.add_bos_token       bool
//   tokenizer.ggml.suppress_tokens     i32s
//   hf2q.stop_token_ids                i32s    Vocabulary::stop_ids
//   hf2q.added_token_ids               i32s    ids of Vocabulary::added
//   hf2q.normalized_token_ids          i32s    those of them that are matched after normalization
//
// Where a file lacks token_type: <0x00> to <0xFF> are bytes, the markers of is_output_marker
// user-defined, the tokens of the five ids above and texts like <|turn>, <turn|> and <|think|>
// control, all others normal. Where it lacks the hf2q keys (others
// wrote it): stop ids are default_stop_ids, added are the control, unknown and user-defined tokens.
// An added token is special when its type is control or unknown, or when it is one of the markers
// of is_output_marker.

#include "base/result.h"
#include "gguf/reader.h"
#include "gguf/writer.h"
#include "tokenizer/vocabulary.h"

namespace hf2q {

// kNotFound, kCorrupt or kUnsupported, naming the file, the key, the expected and the found value:
// texts of 1 to kMaxTokenBytes bytes of UTF-8, as many types and scores (if any), ids
// inside of the vocabulary, each text once, merges of two tokens whose union is one. Where no
// merge at all fits the tokens (files made for timing have one that stands for all), there are
// none. add_bos is true whatever the file says: a Gemma model always wants it, and some converters
// write false.
Result<Vocabulary> read_gguf_vocabulary(const GgufFile& file);

// Sets the keys above, in that order; those of ids, lists and texts that the vocabulary lacks are
// left out.
void write_vocabulary(const Vocabulary& vocabulary, GgufMetadata& metadata);

}  // namespace hf2q
