#include "line_editor.h"

#include <histedit.h>

#include <clocale>
#include <cstdio>

#include "base/check.h"

namespace hf2q::app {
namespace {

constexpr int kHistoryLines = 1000;
constexpr const char* kCancel = "hf2q-cancel";

}  // namespace

struct LineEditor::State {
  EditLine* editor = nullptr;
  History* history = nullptr;
  const char* prompt = "";
  bool cancelled = false;

  static State& of(EditLine* editor) {
    void* state = nullptr;
    el_get(editor, EL_CLIENTDATA, &state);
    return *static_cast<State*>(state);
  }
};

LineEditor::LineEditor() : state_(std::make_unique<State>()) {
  std::setlocale(LC_CTYPE, "C.UTF-8");
  state_->history = history_init();
  state_->editor = el_init("hf2q", stdin, stderr, stderr);
  CHECK(state_->history != nullptr && state_->editor != nullptr);
  HistEvent event = {};
  history(state_->history, &event, H_SETSIZE, kHistoryLines);
  history(state_->history, &event, H_SETUNIQUE, 1);

  EditLine* const editor = state_->editor;
  const auto prompt = [](EditLine* from) {
    return const_cast<char*>(State::of(from).prompt);  // libedit only reads it
  };
  const auto cancel = [](EditLine* from, int /*key*/) -> unsigned char {
    State::of(from).cancelled = true;
    return CC_EOF;
  };
  el_set(editor, EL_CLIENTDATA, state_.get());
  el_set(editor, EL_EDITOR, "emacs");
  el_set(editor, EL_HIST, history, state_->history);
  el_set(editor, EL_PROMPT, static_cast<char* (*)(EditLine*)>(prompt));
  el_set(editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  // While a line is edited Ctrl-C is a key like others, so that no signal arrives half-way.
  el_set(editor, EL_SETTY, "-d", "-isig", nullptr);
  el_set(editor, EL_ADDFN, kCancel, "give the line up",
         static_cast<unsigned char (*)(EditLine*, int)>(cancel));
  el_set(editor, EL_BIND, "^C", kCancel, nullptr);
}

LineEditor::~LineEditor() {
  el_end(state_->editor);
  history_end(state_->history);
}

LineEditor::Outcome LineEditor::read(const char* prompt, std::string& line) {
  state_->prompt = prompt;
  state_->cancelled = false;
  int n = 0;
  const char* text = el_gets(state_->editor, &n);
  if (state_->cancelled) return Outcome::kInterrupted;
  if (text == nullptr || n <= 0) return Outcome::kEnd;
  line.assign(text, static_cast<size_t>(n));
  while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
  HistEvent event = {};
  if (line.find_first_not_of(" \t") != std::string::npos) {
    history(state_->history, &event, H_ENTER, line.c_str());
  }
  return Outcome::kLine;
}

}  // namespace hf2q::app
