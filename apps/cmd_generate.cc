// hf2q generate: one answer to one prompt.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "chat/template.h"
#include "commands.h"
#include "engine/generate.h"
#include "engine/prompt.h"
#include "generation_stats.h"
#include "grammar_flags.h"
#include "interrupt.h"
#include "model_flags.h"
#include "session_flags.h"
#include "soft_flags.h"
#include "terminal.h"

namespace hf2q::app {
namespace {

struct GenerateFlags {
  ModelFlags model;
  SamplingFlags sampling;
  GrammarFlags grammar;
  std::string prompt;
  std::string file;
  std::string tokens;
  std::string chat_template;
  std::string thinking = "off";
  std::string session;
  std::vector<std::string> stops;
  std::vector<std::string> soft;
  int64_t n_predict = -1;
  bool raw = false;
  bool ignore_eos = false;
  bool json = false;
};

// The prompt's ids: as given, the raw text behind one BOS, or the chat form of a user's message.
Result<std::vector<int32_t>> prompt_ids(const Engine& engine, const GenerateFlags& flags,
                                        const Globals& globals) {
  const Tokenizer& tokenizer = engine.tokenizer();
  if (!flags.tokens.empty()) return parse_ids(flags.tokens, tokenizer.n_tokens());
  std::string text = flags.prompt;
  if (!flags.file.empty()) {
    TRY(content, read_text_file(flags.file));
    text = std::move(content);
  }
  TRY_OK(check_prompt_text(text));
  if (flags.raw) return encode_prompt(tokenizer, text);
  TRY(jinja, chat_template_from(flags.chat_template, engine, globals));
  ChatOptions options;
  options.enable_thinking = flags.thinking == "on";
  return chat_prompt(tokenizer, jinja, {{{"role", "user"}, {"content", text}}}, nullptr, options);
}

// Behind a thought, when the prompt asks for one.
Result<Grammar::Shared> answer_grammar(const Engine& engine, const GenerateFlags& flags,
                                       const GrammarText& source, std::span<const int32_t> prompt) {
  GrammarOptions options;
  if (ends_in_open_thought(engine.tokenizer().decode(prompt))) {
    options.thought = Thought::kOpen;
  } else if (flags.thinking == "on") {
    options.thought = Thought::kMay;
  }
  return grammar_from(source, engine.tokenizer(), options);
}

struct Answered {
  Generation generation;
  uint64_t cache_bytes;  // while prompt and answer are held
  size_t n_reused = 0;   // tokens of the prompt, and of the answer begun behind it, in the session
};

void print_stats(size_t n_prompt, const Answered& answered) {
  const Generation& generation = answered.generation;
  const size_t n_reused = answered.n_reused;
  const size_t n = generation.token_ids.size();
  const size_t n_new = n_prompt - std::min(n_prompt, n_reused);
  fmt::print(stderr, "{} prompt tokens, {}{}; {} answer tokens, {}; first after {}; cache {}; {}\n",
             n_prompt, n_reused > 0 ? fmt::format("{} tokens not read again, ", n_reused) : "",
             human_rate(n_new, generation.prompt_seconds), n, answer_rate(generation),
             first_token_time(generation), human_bytes(answered.cache_bytes),
             generation.finish_reason);
}

// From the session's tokens on; the file is left as it is when all is in it.
Result<Answered> answer_in_session(Engine& engine, std::span<const int32_t> prompt,
                                   GenerateOptions options, const GenerateFlags& flags,
                                   const GrammarText& grammar, const Globals& globals) {
  TRY(session, open_session(engine, flags.session, flags.sampling, options.sampling));
  SamplerState sampler = {options.sampling, ""};
  if (options.grammar) {
    sampler.form = fmt::format("{} {} {}", grammar.is_schema, flags.thinking, grammar.text);
  }
  const auto keys = prompt_keys(prompt, options.soft, engine.config().hidden_dim);
  options.begun = begun_answer(session, keys, sampler);
  Conversation conversation(engine);
  TRY(generation, conversation.answer(prompt, std::move(options)));
  if (conversation.ids().size() > conversation.n_reused()) {
    session.n_prompt = static_cast<uint32_t>(prompt.size());
    session.answer = generation.token_ids;
    TRY_OK(
        close_session(engine, conversation, std::move(session), sampler, flags.session, globals));
  }
  return Answered{std::move(generation), engine.pool().used_bytes(), conversation.n_reused()};
}

Result<Answered> answer_alone(Engine& engine, std::span<const int32_t> prompt,
                              const GenerateOptions& options) {
  Sequence sequence = engine.new_sequence();
  TRY(generation, generate(engine, sequence, prompt, options));
  return Answered{std::move(generation), engine.pool().used_bytes()};
}

Result<int> run(GenerateFlags flags, const Globals& globals) {
  if (!flags.session.empty()) {
    if (flags.model.prompt_kv == "exact") {
      return error(ErrorCode::kInvalidArgument,
                   "--session: --prompt-kv stored expected (it keeps stored rows), found exact");
    }
    TRY_OK(check_session_path(flags.session));                // before the model is loaded
    flags.model.n_slots = std::max(flags.model.n_slots, 2U);  // its prompt's end is kept too
  }
  TRY(engine, load_engine(flags.model, globals));
  TRY(ids, prompt_ids(*engine, flags, globals));
  GenerateOptions options;
  TRY(sampling, sampling_params(flags.sampling, engine->file()));
  options.sampling = std::move(sampling);
  options.n_predict = flags.n_predict;
  options.stops = flags.stops;
  options.ignore_eos = flags.ignore_eos;
  TRY(grammar_source, read_grammar_text(flags.grammar));
  TRY(grammar, answer_grammar(*engine, flags, grammar_source, ids));
  options.grammar = std::move(grammar);
  TRY(soft, read_soft_rows(flags.soft, engine->config()));
  options.soft = std::move(soft);
  options.on_text = [&](std::string_view text) {
    if (!flags.json) {
      std::fwrite(text.data(), 1, text.size(), stdout);
      std::fflush(stdout);
    }
    return !interrupted();
  };
  options.on_token = [](int32_t /*id*/) { return !interrupted(); };
  options.cancelled = interrupted;
  note_interrupts();
  TRY(answered, flags.session.empty()
                    ? answer_alone(*engine, ids, options)
                    : answer_in_session(*engine, ids, options, flags, grammar_source, globals));
  const Generation& generation = answered.generation;
  if (flags.json) {
    print_json({{"token_ids", generation.token_ids},
                {"text", generation.text},
                {"finish_reason", generation.finish_reason},
                {"prompt_tokens", ids.size()}});
  } else if (!generation.token_ids.empty() || !interrupted()) {
    fmt::print("\n");
  }
  if (!globals.quiet) print_stats(ids.size(), answered);
  return interrupted() ? kInterrupted : kSuccess;
}

}  // namespace

void add_generate(Program& program, const Globals& globals) {
  Command command = program.add_command("generate", "Answer one prompt");
  auto flags = std::make_shared<GenerateFlags>();
  const Option prompt = command.add_option("-p,--prompt", flags->prompt, "What the user says");
  const Option file =
      command.add_option("-f,--file", flags->file, "File with what the user says; - is stdin");
  const Option tokens =
      command.add_option("--tokens", flags->tokens, "Token ids, taken as they are");
  command.require_one_of({prompt, file, tokens}, &flags->model.dry_run);
  command.add_flag("--raw", flags->raw,
                   "The text as it is, behind one <bos>, instead of the chat form");
  command.add_option("-n,--predict,--n-predict", flags->n_predict,
                     "Most tokens of the answer (default: up to the end of the context)");
  command.add_option("--stop", flags->stops, "The answer ends before this text; may be repeated");
  command.add_flag("--ignore-eos", flags->ignore_eos, "Go on behind the end of the turn");
  command.add_option("--chat-template", flags->chat_template,
                     "File with a Jinja template, instead of the model's");
  command.add_option("--thinking", flags->thinking, "on or off")
      .one_of({"on", "off"})
      .show_default();
  command.add_flag("--json", flags->json,
                   "One object on stdout: token_ids, text, finish_reason, prompt_tokens");
  add_session_flag(command, flags->session);
  add_soft_flag(command, flags->soft);
  add_grammar_flags(command, flags->grammar);
  add_sampling_flags(command, flags->sampling);
  add_model_flags(command, flags->model);
  add_prompt_kv_flag(command, flags->model);
  run_with_model(command, {flags, &flags->model}, globals,
                 [flags, &globals] { return run(*flags, globals); });
}

}  // namespace hf2q::app
