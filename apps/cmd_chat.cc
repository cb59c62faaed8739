// hf2q chat: a conversation in the terminal. Answers go to stdout, the rest to stderr.

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/output_file.h"
#include "chat_input.h"
#include "commands.h"
#include "engine/conversation.h"
#include "engine/output_reader.h"
#include "engine/prompt.h"
#include "generation_stats.h"
#include "interrupt.h"
#include "model_flags.h"
#include "session_flags.h"
#include "terminal.h"

namespace hf2q::app {
namespace {

using nlohmann::ordered_json;

constexpr const char* kChatHelp =
    "/help         this list\n"
    "/reset        forget the conversation, keep the system message\n"
    "/system TEXT  set the system message; without TEXT, remove it\n"
    "/save FILE    write the messages as JSON\n"
    "/stats        tokens, speed and cache of the last answer\n"
    "/exit         or Ctrl-D\n"
    "A line that begins with // is a message that begins with /.\n"
    "A line that ends in \\ goes on in the next one; a block stands between \"\"\" and \"\"\".\n"
    "Arrow keys edit and bring back lines, Ctrl-R searches them.\n"
    "Ctrl-C stops an answer, a second one quits.\n";

struct ChatFlags {
  ModelFlags model;
  SamplingFlags sampling;
  std::string system;
  std::string chat_template;
  std::string thinking = "off";
  std::string session;
  int64_t n_predict = -1;
};

// Shows an answer token by token, thoughts dimmed or, without colours, in brackets.
class AnswerPrinter {
 public:
  AnswerPrinter(const Tokenizer& tokenizer, const MarkerIds& markers, bool in_thought, bool colors)
      : reader_(tokenizer, markers, in_thought), colors_(colors) {}

  void on_token(int32_t id) {
    reader_.push(id);
    show(reader_.show(OutputReader::kAll));
  }
  void finish() {
    show(reader_.finish(OutputReader::kAll));
    set_dimmed(false);
    std::fflush(stdout);
  }
  const std::string& content() const { return content_; }

 private:
  void show(const std::vector<OutputEvent>& events) {
    for (const OutputEvent& event : events) {
      const bool is_content = event.kind == OutputEvent::Kind::kContent;
      if (event.text.empty()) continue;
      set_dimmed(!is_content);
      std::fwrite(event.text.data(), 1, event.text.size(), stdout);
      if (is_content) content_ += event.text;
    }
    std::fflush(stdout);
  }

  void set_dimmed(bool dimmed) {
    if (dimmed == dimmed_) return;
    dimmed_ = dimmed;
    const char* begin = colors_ ? "\033[2m" : "[";
    const char* end = colors_ ? "\033[0m\n" : "]\n";
    std::fputs(dimmed ? begin : end, stdout);
    set_parting_text(dimmed && colors_ ? "\033[0m\n" : nullptr);
  }

  OutputReader reader_;
  bool colors_;
  bool dimmed_ = false;
  std::string content_;
};

bool wants_colors() {
  const char* refused = std::getenv("NO_COLOR");
  return (refused == nullptr || *refused == '\0') && isatty(STDOUT_FILENO) == 1;
}

class Chat {
 public:
  Chat(Engine& engine, ChatTemplate jinja, GenerateOptions options, const ChatFlags& flags)
      : engine_(engine),
        jinja_(std::move(jinja)),
        options_(std::move(options)),
        thinking_(flags.thinking == "on"),
        system_(flags.system),
        conversation_(engine),
        markers_(output_markers(engine.tokenizer())) {}

  // Answers `text`. On an error the conversation is as it was.
  Status say(const std::string& text) {
    messages_.push_back({{"role", "user"}, {"content", text}});
    Status status = answer();
    if (!status.ok()) messages_.erase(messages_.size() - 1);
    return status;
  }

  // Goes on with what was said in an earlier run; a system message of this one counts.
  void resume(const Session& session) {
    messages_ = session.messages;
    if (system_.empty()) system_ = session.system;
  }

  // What was said is in the file then; without a conversation, after /reset, there is none.
  Status keep(const std::string& path, const Globals& globals) {
    if (was_reset_ && conversation_.ids().empty()) {
      std::error_code failure;
      std::filesystem::remove(path, failure);
      return Ok{};
    }
    if (conversation_.ids().empty()) return Ok{};
    Session session;
    session.n_prompt = static_cast<uint32_t>(n_prompt_);
    session.answer = last_.token_ids;
    session.system = system_;
    session.messages = messages_;
    return close_session(engine_, conversation_, std::move(session), {options_.sampling, ""}, path,
                         globals);
  }

  // False: the user wants to leave.
  Result<bool> command(const std::string& line) {
    const size_t space = line.find(' ');
    const std::string name = line.substr(0, space);
    const size_t at = line.find_first_not_of(' ', space);
    const std::string rest = at == std::string::npos || space == at ? "" : line.substr(at);
    if (name == "/exit" || name == "/quit") return false;
    if (name == "/help") {
      fmt::print(stderr, "{}", kChatHelp);
    } else if (name == "/reset") {
      messages_ = ordered_json::array();
      conversation_.reset();
      was_reset_ = true;
    } else if (name == "/system") {
      system_ = rest;
    } else if (name == "/stats") {
      print_chat_stats();
    } else if (name == "/save") {
      TRY_OK(save(rest));
    } else {
      return error(ErrorCode::kInvalidArgument, "no command {}; /help shows them", name);
    }
    return true;
  }

 private:
  ordered_json all_messages() const {
    ordered_json all = ordered_json::array();
    if (!system_.empty()) all.push_back({{"role", "system"}, {"content", system_}});
    for (const ordered_json& message : messages_) all.push_back(message);
    return all;
  }

  Status answer() {
    ChatOptions chat;
    chat.enable_thinking = thinking_;
    TRY(prompt, chat_prompt(engine_.tokenizer(), jinja_, all_messages(), nullptr, chat));
    AnswerPrinter printer(engine_.tokenizer(), markers_,
                          ends_in_open_thought(engine_.tokenizer().decode(prompt)), wants_colors());
    GenerateOptions options = options_;
    options.on_token = [&](int32_t id) {
      printer.on_token(id);
      return !interrupted();
    };
    forget_interrupt();
    options.cancelled = interrupted;
    Result<Generation> generation = conversation_.answer(prompt, options);
    printer.finish();
    TRY(done, std::move(generation));
    fmt::print("\n");
    std::fflush(stdout);
    n_prompt_ = prompt.size();
    last_ = std::move(done);
    if (last_.finish_reason == "cancelled") fmt::print(stderr, "(stopped)\n");
    if (last_.finish_reason == "length") warn("the answer ends here: its limit or the context");
    if (last_.token_ids.empty()) {
      messages_.erase(messages_.size() - 1);  // as if nobody had asked
    } else {
      messages_.push_back({{"role", "assistant"}, {"content", printer.content()}});
    }
    return Ok{};
  }

  void print_chat_stats() const {
    const size_t n_new = n_prompt_ - std::min(n_prompt_, conversation_.n_reused());
    fmt::print(
        stderr,
        "prompt {} tokens, {} of them reused, {}; answer {} tokens, {}; first after {}; context {} "
        "of {} tokens, cache {}\n",
        n_prompt_, n_prompt_ - n_new, human_rate(n_new, last_.prompt_seconds),
        last_.token_ids.size(), answer_rate(last_), first_token_time(last_),
        conversation_.ids().size(), engine_.n_ctx(), human_bytes(engine_.pool().used_bytes()));
  }

  Status save(const std::string& path) const {
    if (path.empty())
      return error(ErrorCode::kInvalidArgument, "/save: the name of a file expected");
    const std::string text = ordered_json{{"messages", all_messages()}}.dump(
        2, ' ', false, ordered_json::error_handler_t::replace);
    TRY(file, OutputFile::create(path));
    TRY_OK(file.write(std::as_bytes(std::span(text))));
    return file.commit();
  }

  Engine& engine_;
  ChatTemplate jinja_;
  GenerateOptions options_;
  bool thinking_;
  std::string system_;
  Conversation conversation_;
  MarkerIds markers_;
  ordered_json messages_ = ordered_json::array();  // without the system message
  bool was_reset_ = false;
  size_t n_prompt_ = 0;
  Generation last_;
};

Result<bool> handle(Chat& chat, const ChatInput& input) {
  if (input.kind == ChatInput::Kind::kCommand) return chat.command(input.text);
  TRY_OK(chat.say(input.text));
  return true;
}

// Until the end of the input, /exit, or two interrupts. The exit code is that of the last error.
int converse(Chat& chat, bool interactive) {
  ChatReader reader(interactive);
  int exit_code = kSuccess;
  for (bool warned = false;;) {
    const ChatInput input = reader.next();
    if (input.kind == ChatInput::Kind::kEnd) return exit_code;
    if (input.kind == ChatInput::Kind::kInterrupted) {
      if (!interactive || warned) return kInterrupted;
      fmt::print(stderr, "\n(Ctrl-C again or /exit to leave)\n");
      warned = true;
      continue;
    }
    warned = false;
    const Result<bool> go_on = handle(chat, input);
    if (!go_on.ok()) exit_code = report(go_on.error());
    if (go_on.ok() && !go_on.value()) return exit_code;
    forget_interrupt();
  }
}

Result<int> run_chat(ChatFlags flags, const Globals& globals) {
  flags.model.n_slots = 2;  // the conversation, and the point to which it may be taken back
  if (!flags.session.empty()) TRY_OK(check_session_path(flags.session));
  TRY(engine, load_engine(flags.model, globals));
  TRY(jinja, chat_template_from(flags.chat_template, *engine, globals));
  GenerateOptions options;
  TRY(sampling, sampling_params(flags.sampling, engine->file()));
  options.sampling = std::move(sampling);
  options.n_predict = flags.n_predict;
  TRY(session, open_session(*engine, flags.session, flags.sampling, options.sampling));
  Chat chat(*engine, std::move(jinja), std::move(options), flags);
  chat.resume(session);
  const bool interactive = isatty(STDIN_FILENO) == 1;
  if (interactive && !globals.quiet) {
    fmt::print(stderr, "context of {} tokens; /help shows the commands\n", engine->n_ctx());
  }
  if (!session.messages.empty() && !globals.quiet) {
    fmt::print(stderr, "going on behind {} messages\n", session.messages.size());
  }
  note_interrupts();
  const int exit_code = converse(chat, interactive);
  if (!flags.session.empty()) TRY_OK(chat.keep(flags.session, globals));
  return exit_code;
}

}  // namespace

void add_chat(Program& program, const Globals& globals) {
  Command command = program.add_command("chat", "A conversation in the terminal");
  auto flags = std::make_shared<ChatFlags>();
  command.add_option("--system", flags->system, "System message");
  command.add_option("--thinking", flags->thinking, "on or off")
      .one_of({"on", "off"})
      .show_default();
  command.add_option("-n,--predict,--n-predict", flags->n_predict,
                     "Most tokens of an answer (default: up to the end of the context)");
  command.add_option("--chat-template", flags->chat_template,
                     "File with a Jinja template, instead of the model's");
  add_session_flag(command, flags->session);
  add_sampling_flags(command, flags->sampling);
  add_model_flags(command, flags->model);
  run_with_model(command, {flags, &flags->model}, globals,
                 [flags, &globals] { return run_chat(*flags, globals); });
}

}  // namespace hf2q::app
