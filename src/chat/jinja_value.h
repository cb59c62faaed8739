#pragma once
// What a template computes with: Python's values, without those that can be changed.
//
// Strings, lists and dicts are shared and never written after they were made, so they hold no
// cycles. Namespaces, which can be written, belong to the Runtime and are only pointed to.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace hf2q::jinja {

struct List;
struct Dict;
struct Namespace;
struct Loop;
struct Callable;

enum class Kind {  // in the order of Value's alternatives
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kDict,
  kNamespace,
  kLoop,
  kCallable,
};

struct Undefined {
  std::string name;  // of the variable or attribute that was missing; may be empty
};
struct None {
  bool operator==(const None&) const = default;
};

class Value {
 public:
  Value() : state_(std::shared_ptr<const Undefined>()) {}  // undefined, without a name
  static Value undefined(std::string_view name);
  static Value none() { return Value(None{}); }
  static Value boolean(bool value) { return Value(value); }
  static Value integer(int64_t value) { return Value(value); }
  static Value number(double value) { return Value(value); }
  static Value string(std::string text) {
    return Value(std::make_shared<const std::string>(std::move(text)));
  }
  static Value list(std::shared_ptr<const List> items) { return Value(std::move(items)); }
  static Value dict(std::shared_ptr<const Dict> entries) { return Value(std::move(entries)); }
  static Value space(Namespace* space) { return Value(space); }
  static Value loop(std::shared_ptr<const Loop> state) { return Value(std::move(state)); }
  static Value callable(std::shared_ptr<const Callable> function) {
    return Value(std::move(function));
  }

  Kind kind() const { return static_cast<Kind>(state_.index()); }
  bool is(Kind kind) const { return this->kind() == kind; }
  bool given() const { return !is(Kind::kUndefined) && !is(Kind::kNone); }
  bool is_number() const { return is(Kind::kBool) || is(Kind::kInt) || is(Kind::kFloat); }
  bool is_integral() const { return is(Kind::kBool) || is(Kind::kInt); }

  // Each only for its kind.
  std::string_view undefined_name() const;
  bool as_bool() const { return std::get<bool>(state_); }
  int64_t as_int() const;    // kBool, kInt
  double as_double() const;  // kBool, kInt, kFloat
  const std::string& as_string() const { return *std::get<5>(state_); }
  const List& as_list() const { return *std::get<6>(state_); }
  const std::shared_ptr<const List>& shared_list() const { return std::get<6>(state_); }
  const Dict& as_dict() const { return *std::get<7>(state_); }
  Namespace& as_namespace() const { return *std::get<8>(state_); }
  const Loop& as_loop() const { return *std::get<9>(state_); }
  const Callable& as_callable() const { return *std::get<10>(state_); }

  bool truthy() const;
  size_t depth() const;                        // 0 for what holds no other values
  std::string_view type_name() const;          // Python's
  bool same_object(const Value& other) const;  // Python's `is`, near enough

 private:
  using State = std::variant<std::shared_ptr<const Undefined>, None, bool, int64_t, double,
                             std::shared_ptr<const std::string>, std::shared_ptr<const List>,
                             std::shared_ptr<const Dict>, Namespace*, std::shared_ptr<const Loop>,
                             std::shared_ptr<const Callable>>;
  explicit Value(State state) : state_(std::move(state)) {}
  State state_;
};

struct List {
  std::vector<Value> items;
  bool tuple = false;  // only str() tells them apart
  bool group = false;  // of groupby: the items are also its grouper and list
  size_t depth = 1;    // 1 + the deepest item
};

struct Dict {
  std::vector<std::pair<Value, Value>> entries;  // in order of insertion; keys are distinct
  size_t depth = 1;

  const Value* find(std::string_view key) const;  // nullptr where it is absent
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
};

struct Loop {
  std::shared_ptr<const List> items;
  size_t index0;
  Value* last_changed;  // arguments of the last loop.changed(), which the Runtime keeps
};

struct Function;
struct Stmt;

// A function of the engine, bound to `self` where it is a method, or a macro of the template.
struct Callable {
  const Function* function = nullptr;
  Value self;
  const Stmt* macro = nullptr;
  size_t frame = 0;       // where the macro was defined,
  uint64_t frame_id = 0;  // and which of the frames that stood there
};

Value function_value(const Function* function, Value self = {});
Value macro_value(const Stmt* macro, size_t frame, uint64_t frame_id);

}  // namespace hf2q::jinja
