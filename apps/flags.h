#pragma once
// Commands and their flags. CLI11 does the work and is seen by flags.cc alone, since every file
// that includes it takes ten seconds to compile.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace hf2q::app {

// Where a flag's value goes. An optional or a list stays empty when the flag is not given.
using FlagTarget =
    std::variant<bool*, std::string*, int32_t*, uint32_t*, int64_t*, uint64_t*, float*, double*,
                 std::optional<int64_t>*, std::optional<uint64_t>*, std::optional<float>*,
                 std::optional<double>*, std::vector<std::string>*>;

class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  Option& group(const std::string& title);  // its heading in --help
  Option& required();
  Option& show_default();  // what the target holds now
  Option& excludes(const Option& other);
  Option& one_of(std::initializer_list<std::string_view> words);
  Option& range(double low, double high);              // both included
  Option& optional_value(const std::string& implied);  // when the flag stands alone
  Option& value_name(const std::string& name);
  bool given() const;
  std::string name() const;  // --output

 private:
  CLI::Option* option_;
};

class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}
  // `names` is "-o,--output" for a flag, "checkpoint" for a word at its place.
  template <class T>
  Option add_option(const std::string& names, T& target, const std::string& help) {
    return add(names, &target, help);
  }
  Option add_flag(const std::string& names, bool& target, const std::string& help);
  // Exactly one of these has to be given; none, where `*optional` is set by another flag.
  void require_one_of(std::initializer_list<Option> options, const bool* optional = nullptr);
  // What the command does once its flags are read, and its exit code.
  void on_run(std::function<int()> run);

 private:
  friend class Program;
  struct Choice {
    std::vector<Option> options;
    const bool* optional;
  };
  struct State {
    std::vector<Choice> choices;
    std::function<int()> run;
  };
  Option add(const std::string& names, FlagTarget target, const std::string& help);

  CLI::App* app_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// The whole command line: flags that hold for all commands, and the commands.
class Program {
 public:
  Program(const std::string& description, const std::string& name, const std::string& version);
  ~Program();
  Command& global() { return global_; }
  Command add_command(const std::string& name, const std::string& description);
  // Reads the flags, runs the command and returns its exit code; kUsage behind a message on stderr
  // that says which name may have been meant.
  int run(int argc, char** argv);

  // Every command's name with its flags' spellings; the first entry is the program itself.
  struct Names {
    std::string command;
    std::string description;
    struct Flag {
      std::vector<std::string> spellings;  // with their dashes
      std::string help;
      bool takes_value;
    };
    std::vector<Flag> flags;
  };
  std::vector<Names> names() const;

 private:
  std::unique_ptr<CLI::App> app_;
  Command global_;
  std::vector<Command> commands_;
};

}  // namespace hf2q::app
