#include "flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <numeric>
#include <span>

#include "terminal.h"

namespace hf2q::app {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({replaced, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row.back();
}

void collect_names(const CLI::App& app, std::vector<std::string>& names) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
}

// The names that may stand on this command line: the program's and those of its command.
std::vector<std::string> names_for(const CLI::App& program, std::span<char*> arguments) {
  std::vector<std::string> names;
  collect_names(program, names);
  for (const CLI::App* command : program.get_subcommands(nullptr)) {
    if (std::ranges::find(arguments, command->get_name()) != arguments.end()) {
      collect_names(*command, names);
    }
  }
  return names;
}

// The name that was probably meant by `word`, or "".
std::string nearest_name(std::span<const std::string> names, const std::string& word) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& name : names) {
    const size_t distance = edit_distance(word, name);
    if (distance < best_distance) {
      best_distance = distance;
      best = name;
    }
  }
  return best;
}

int usage_error(const CLI::App& program, const std::string& message, std::span<char*> arguments) {
  fmt::print(stderr, "hf2q: error: {}\n", message);
  const std::vector<std::string> names = names_for(program, arguments);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    const std::string word(argument.substr(0, argument.find('=')));
    const bool is_name = i == 0 || word.starts_with("--");
    if (!is_name || word.size() < 3 || std::ranges::find(names, word) != names.end()) continue;
    const std::string meant = nearest_name(names, word);
    fmt::print(stderr, "{} is not known{}\n", word,
               meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
  }
  fmt::print(stderr, "hf2q --help shows the commands, hf2q COMMAND --help their flags\n");
  return kUsage;
}

// Spellings of several letters behind one dash, which users of llama.cpp know.
std::vector<std::string> expand_spellings(int argc, char** argv) {
  static constexpr std::pair<std::string_view, const char*> kSpellings[] = {
      {"-ctk", "--cache-type-k"}, {"-ctv", "--cache-type-v"}, {"-ub", "--batch-size"},
      {"-np", "--parallel"},      {"-ngl", "--n-gpu-layers"}, {"-fa", "--flash-attn"}};
  std::vector<std::string> words(argv + 1, argv + argc);
  for (std::string& word : words) {
    for (const auto& [spelling, name] : kSpellings) {
      if (word == spelling) word = name;
    }
  }
  std::reverse(words.begin(), words.end());  // the order that the parser wants
  return words;
}

}  // namespace

Option& Option::group(const std::string& title) {
  option_->group(title);
  return *this;
}

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::show_default() {
  option_->capture_default_str();
  return *this;
}

Option& Option::excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}

Option& Option::one_of(std::initializer_list<std::string_view> words) {
  option_->check(CLI::IsMember(std::vector<std::string>(words.begin(), words.end())));
  return *this;
}

Option& Option::range(double low, double high) {
  const std::string expected = fmt::format("{:.15g} to {:.15g}", low, high);
  const auto outside = [=](const std::string& text) {
    double value = 0;
    const bool inside = CLI::detail::lexical_cast(text, value) && value >= low && value <= high;
    return inside ? std::string() : fmt::format("{} expected, found {}", expected, text);
  };
  option_->check(CLI::Validator(outside, expected));
  return *this;
}

Option& Option::optional_value(const std::string& implied) {
  option_->expected(0, 1)->default_str(implied);
  return *this;
}

Option& Option::value_name(const std::string& name) {
  option_->type_name(name);
  return *this;
}

bool Option::given() const {
  return option_->count() > 0;
}

std::string Option::name() const {
  return option_->get_name();
}

Option Command::add(const std::string& names, FlagTarget target, const std::string& help) {
  return std::visit([&](auto* value) { return Option(app_->add_option(names, *value, help)); },
                    target);
}

Option Command::add_flag(const std::string& names, bool& target, const std::string& help) {
  return Option(app_->add_flag(names, target, help));
}

void Command::require_one_of(std::initializer_list<Option> options, const bool* optional) {
  const std::vector<Option> all(options);
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = i + 1; j < all.size(); ++j) Option(all[i]).excludes(all[j]);
  }
  state_->choices.push_back({all, optional});
}

void Command::on_run(std::function<int()> run) {
  state_->run = std::move(run);
}

Program::Program(const std::string& description, const std::string& name,
                 const std::string& version)
    : app_(std::make_unique<CLI::App>(description, name)), global_(app_.get()) {
  app_->set_version_flag("--version", version);
  app_->set_config("--config", "", "Read flags from this file, those of a command below [COMMAND]");
  app_->allow_config_extras(CLI::config_extras_mode::error);
  app_->require_subcommand(1);
  app_->fallthrough();
}

Program::~Program() = default;

Command Program::add_command(const std::string& name, const std::string& description) {
  return commands_.emplace_back(app_->add_subcommand(name, description));
}

int Program::run(int argc, char** argv) {
  try {
    app_->parse(expand_spellings(argc, argv));
    for (const Command& command : commands_) {
      if (!command.app_->parsed()) continue;
      for (const Command::Choice& choice : command.state_->choices) {
        if (choice.optional != nullptr && *choice.optional) continue;
        if (std::ranges::any_of(choice.options, &Option::given)) continue;
        std::string names;
        for (const Option& option : choice.options)
          names += (names.empty() ? "" : ", ") + option.name();
        throw CLI::RequiredError("one of " + names);
      }
      return command.state_->run();
    }
  } catch (const CLI::ParseError& parse_error) {
    if (parse_error.get_exit_code() == 0) return app_->exit(parse_error);  // --help, --version
    return usage_error(*app_, parse_error.what(),
                       std::span(argv, static_cast<size_t>(argc)).subspan(1));
  }
  return kUsage;  // CLI11 asks for a command before
}

std::vector<Program::Names> Program::names() const {
  std::vector<Names> all;
  const auto add = [&](const CLI::App& app) {
    Names names = {app.get_name(), app.get_description(), {}};
    for (const CLI::Option* option : app.get_options()) {
      Names::Flag flag = {{}, option->get_description(), option->get_items_expected_max() > 0};
      for (const std::string& name : option->get_snames()) flag.spellings.push_back("-" + name);
      for (const std::string& name : option->get_lnames()) flag.spellings.push_back("--" + name);
      if (!flag.spellings.empty()) names.flags.push_back(std::move(flag));
    }
    all.push_back(std::move(names));
  };
  add(*app_);
  for (const Command& command : commands_) add(*command.app_);
  return all;
}

}  // namespace hf2q::app
