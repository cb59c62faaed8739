#include "engine/prompt.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/added_tokens.h"

namespace hf2q {
namespace {

using nlohmann::ordered_json;

// A marker in somebody's words is broken by a guard behind its first byte, so that it goes through
// the template as ordinary text; after encoding, the stretches with guards are encoded anew
// without. Guards are noncharacters of Unicode, U+FDD0 to U+FDEF: one that the words do not hold is
// taken.
constexpr int kGuards = 32;

std::string guard_text(int i) {
  std::string text = "\xEF\xB7\x90";
  text.back() = static_cast<char>(0x90 + i);
  return text;
}

std::optional<std::string> unused_guard(std::string_view words) {
  for (int i = 0; i < kGuards; ++i) {
    std::string guard = guard_text(i);
    if (words.find(guard) == std::string_view::npos) return guard;
  }
  return std::nullopt;
}

// The tokens that only a template may write.
AddedTokenFinder special_tokens(const Tokenizer& tokenizer) {
  std::vector<AddedTokenFinder::Entry> entries;
  for (const AddedToken& token : tokenizer.vocabulary().added) {
    if (token.special) entries.push_back({tokenizer.token_text(token.id), token.id});
  }
  return AddedTokenFinder(std::move(entries));
}

std::string break_markers(const AddedTokenFinder& markers, std::string_view text,
                          std::string_view guard) {
  std::string broken;
  size_t copied = 0;
  for (auto match = markers.find(text, 0); match; match = markers.find(text, match->begin + 1)) {
    broken.append(text.substr(copied, match->begin + 1 - copied)).append(guard);
    copied = match->begin + 1;
  }
  return broken.append(text.substr(copied));
}

// Breaks the markers in every text of `json`, however deep.
void break_all_markers(const AddedTokenFinder& markers, std::string_view guard,
                       ordered_json& json) {
  if (json.is_string()) {
    json = break_markers(markers, json.get_ref<const std::string&>(), guard);
  } else if (json.is_structured()) {
    for (ordered_json& item : json) break_all_markers(markers, guard, item);
  }
}

std::string without(std::string text, std::string_view guard) {
  for (size_t at = text.find(guard); at != std::string::npos; at = text.find(guard, at)) {
    text.erase(at, guard.size());
  }
  return text;
}

std::string words_of(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::vector<int32_t> with_bos(const Tokenizer& tokenizer, std::vector<int32_t> ids) {
  const int32_t bos = tokenizer.vocabulary().bos;
  if (ids.empty() || ids.front() != bos) ids.insert(ids.begin(), bos);
  return ids;
}

// The ids of a rendered prompt with guards in it.
std::vector<int32_t> encode_guarded(const Tokenizer& tokenizer, std::string_view text,
                                    std::string_view guard) {
  if (text.find(guard) == std::string_view::npos) return tokenizer.encode(text, {});
  std::vector<bool> special(tokenizer.n_tokens());
  for (const AddedToken& token : tokenizer.vocabulary().added) {
    special[static_cast<size_t>(token.id)] = token.special;
  }
  const std::vector<int32_t> guarded = tokenizer.encode(text, {.parse_special = true});
  std::vector<int32_t> ids;
  for (auto begin = guarded.begin(); begin != guarded.end();) {
    const auto end = std::find_if(begin, guarded.end(),
                                  [&](int32_t id) { return special[static_cast<size_t>(id)]; });
    const std::string words = tokenizer.decode({begin, end});
    if (words.find(guard) == std::string::npos) {
      ids.insert(ids.end(), begin, end);
    } else {
      const auto plain = tokenizer.encode(without(words, guard), {.parse_special = false});
      ids.insert(ids.end(), plain.begin(), plain.end());
    }
    begin = end;
    if (begin != guarded.end()) ids.push_back(*begin++);
  }
  return ids;
}

}  // namespace

Gemma4Size gemma4_size_of(const Engine& engine) {
  return engine.config().ple_dim > 0 ? Gemma4Size::kSmall : Gemma4Size::kLarge;
}

Result<ChatTemplate> chat_template_of(const Engine& engine) {
  const std::string& own = engine.tokenizer().vocabulary().chat_template;
  if (!own.empty()) return ChatTemplate::parse(own);
  return ChatTemplate::gemma4(gemma4_size_of(engine));
}

std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view text) {
  return with_bos(tokenizer, tokenizer.encode(text, {.parse_special = true}));
}

Result<std::vector<int32_t>> chat_prompt(const Tokenizer& tokenizer, const ChatTemplate& jinja,
                                         const ordered_json& messages, const ordered_json& tools,
                                         const ChatOptions& options) {
  const std::optional<std::string> guard = unused_guard(words_of(messages) + words_of(tools));
  if (!guard) {
    return error(ErrorCode::kInvalidArgument,
                 "messages: at most {} of the noncharacters U+FDD0 to U+FDEF expected, found all",
                 kGuards - 1);
  }
  const AddedTokenFinder markers = special_tokens(tokenizer);
  ordered_json safe_messages = messages;
  ordered_json safe_tools = tools;
  break_all_markers(markers, *guard, safe_messages);
  break_all_markers(markers, *guard, safe_tools);
  TRY(text, jinja.render(safe_messages, safe_tools, options));
  return with_bos(tokenizer, encode_guarded(tokenizer, text, *guard));
}

}  // namespace hf2q
