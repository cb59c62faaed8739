// Evaluates a parsed template.

#include "chat/jinja.h"

#include <nlohmann/json.hpp>

#include "base/quote.h"
#include "chat/jinja_ast.h"

namespace hf2q::jinja {
namespace {

using nlohmann::ordered_json;

Result<Value> value_of(Runtime& rt, const ordered_json& json, size_t depth = 0) {
  if (depth > rt.limits().max_nesting) {
    return rt.fail("input nested more than {} deep", rt.limits().max_nesting);
  }
  switch (json.type()) {
    case ordered_json::value_t::null:
      return Value::none();
    case ordered_json::value_t::boolean:
      return Value::boolean(json.get<bool>());
    case ordered_json::value_t::number_unsigned:
      if (json.get<uint64_t>() > INT64_MAX)
        return rt.fail("input integer {} is out of range", json.get<uint64_t>());
      [[fallthrough]];
    case ordered_json::value_t::number_integer:
      return Value::integer(json.get<int64_t>());
    case ordered_json::value_t::number_float:
      return Value::number(json.get<double>());
    case ordered_json::value_t::string:
      return rt.make_string(json.get_ref<const std::string&>());
    case ordered_json::value_t::array: {
      std::vector<Value> items;
      for (const auto& child : json) {
        TRY(item, value_of(rt, child, depth + 1));
        items.push_back(std::move(item));
      }
      return rt.make_list(std::move(items));
    }
    case ordered_json::value_t::object: {
      std::vector<std::pair<Value, Value>> entries;
      for (const auto& [name, child] : json.items()) {
        TRY(item, value_of(rt, child, depth + 1));
        entries.emplace_back(Value::string(name), std::move(item));
      }
      return rt.make_dict(std::move(entries));
    }
    default:
      return rt.fail("input of type {} is not supported", json.type_name());
  }
}

// Names visible in a block. Frames form a stack; `parent` is where a name is looked for next, which
// for a macro is the frame it was defined in.
struct Frame {
  uint64_t id;
  size_t parent;
  std::vector<std::pair<std::string_view, Value>> names;
};
constexpr size_t kNoFrame = SIZE_MAX;

enum class Flow { kNext, kBreak, kContinue };

// An error ends the rendering, so that nothing is unwound on the way out of a failed function.
// What eval and exec_block call is kept out of line: inlined, all its locals would be in the frames
// that recursion repeats, and max_call_depth would need several times the stack.
class Evaluator {
 public:
  explicit Evaluator(Runtime& rt) : rt_(rt) {}

  Result<std::string> run(const Block& body, const ordered_json& variables) {
    push_frame(kNoFrame);
    for (const auto& [name, json] : variables.items()) {
      TRY(value, value_of(rt_, json));
      input_names_.push_back(name);
      assign(input_names_.back(), std::move(value));
    }
    std::string out;
    out_ = &out;
    TRY_OK(exec_block(body));
    return out;
  }

 private:
  class Nesting {
   public:
    explicit Nesting(size_t& depth) : depth_(depth) { ++depth_; }
    ~Nesting() { --depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    size_t& depth_;
  };

  // To be called by whatever can contain itself; counts a step.
  Status enter(int line) {
    rt_.line = line;
    if (depth_ > rt_.limits().max_call_depth) {
      return rt_.fail("calls nested more than {} deep", rt_.limits().max_call_depth);
    }
    return rt_.spend();
  }

  // ---- names ----

  void push_frame(size_t parent) { frames_.push_back({next_frame_id_++, parent, {}}); }
  size_t top() const { return frames_.size() - 1; }

  void assign(std::string_view name, Value value) {
    for (auto& [known, old] : frames_.back().names) {
      if (known != name) continue;
      old = std::move(value);
      return;
    }
    frames_.back().names.emplace_back(name, std::move(value));
  }

  Value look_up(const std::string& name) const {
    for (size_t frame = top(); frame != kNoFrame; frame = frames_[frame].parent) {
      for (const auto& [known, value] : frames_[frame].names) {
        if (known == name) return value;
      }
    }
    if (const Function* function = find_global(name)) {
      return function_value(function);
    }
    return Value::undefined(name);
  }

  [[gnu::noinline]] Status assign_target(const Expr& target, Value value) {
    if (target.kind == ExprKind::kName) {
      assign(target.name, std::move(value));
      return Ok{};
    }
    if (target.kind == ExprKind::kAttribute) return assign_attribute(target, std::move(value));
    TRY(items, items_of(rt_, value));
    if (items->items.size() != target.args.size()) {
      return rt_.fail("{} values to unpack expected, found {}", target.args.size(),
                      items->items.size());
    }
    for (size_t i = 0; i < target.args.size(); ++i) {
      TRY_OK(assign_target(*target.args[i], items->items[i]));
    }
    return Ok{};
  }

  Status assign_attribute(const Expr& target, Value value) {
    const Value object = look_up(target.args[0]->name);
    if (!object.is(Kind::kNamespace)) {
      return rt_.fail("'{}' is no namespace, so '{}' cannot be set", target.args[0]->name,
                      target.name);
    }
    auto& attributes = object.as_namespace().attributes;
    for (auto& [name, old] : attributes) {
      if (name != target.name) continue;
      old = std::move(value);
      return Ok{};
    }
    attributes.emplace_back(target.name, std::move(value));
    return Ok{};
  }

  // ---- statements ----

  Result<Flow> exec_block(const Block& block) {
    const Nesting nesting(depth_);
    for (const auto& stmt : block) {
      TRY_OK(enter(stmt->line));
      TRY(flow, exec(*stmt));
      if (flow != Flow::kNext) return flow;
    }
    return Flow::kNext;
  }

  Result<Flow> exec(const Stmt& stmt) {
    switch (stmt.kind) {
      case StmtKind::kIf:
        return exec_if(stmt);
      case StmtKind::kFor:
        return exec_for(stmt);
      case StmtKind::kBreak:
        return Flow::kBreak;
      case StmtKind::kContinue:
        return Flow::kContinue;
      default:
        TRY_OK(exec_simple(stmt));
        return Flow::kNext;
    }
  }

  [[gnu::noinline]] Status exec_simple(const Stmt& stmt) {
    if (stmt.kind == StmtKind::kText) return output(Value::string(stmt.text));
    if (stmt.kind == StmtKind::kSetBlock) return exec_set_block(stmt);
    if (stmt.kind == StmtKind::kMacro) {
      assign(stmt.text, macro_value(&stmt, top(), frames_.back().id));
      return Ok{};
    }
    TRY(value, eval(*stmt.value));
    return stmt.kind == StmtKind::kOutput ? output(value)
                                          : assign_target(*stmt.target, std::move(value));
  }

  Status output(const Value& value) { return append_str(rt_, value, *out_); }

  // What the block writes.
  [[gnu::noinline]] Result<std::string> capture(const Block& body) {
    std::string text;
    std::string* outer = std::exchange(out_, &text);
    TRY_OK(exec_block(body));
    out_ = outer;
    return text;
  }

  [[gnu::noinline]] Status exec_set_block(const Stmt& stmt) {
    push_frame(top());
    TRY(text, capture(stmt.body));
    frames_.pop_back();
    TRY(value, rt_.make_string(std::move(text)));
    for (const ExprPtr& filter : stmt.filters) {
      TRY(filtered, apply(*filter, value));
      value = std::move(filtered);
    }
    return assign_target(*stmt.target, std::move(value));
  }

  [[gnu::noinline]] Result<Flow> exec_if(const Stmt& stmt) {
    for (const Branch& branch : stmt.branches) {
      TRY(condition, eval(*branch.condition));
      if (condition.truthy()) return exec_block(branch.body);
    }
    return exec_block(stmt.otherwise);
  }

  // The items for which the loop's condition holds.
  [[gnu::noinline]] Result<std::shared_ptr<const List>> filtered_items(const Stmt& stmt,
                                                                       const List& all) {
    std::vector<Value> kept;
    for (const Value& item : all.items) {
      push_frame(top());
      TRY_OK(assign_target(*stmt.target, item));
      TRY(condition, eval(*stmt.condition));
      if (condition.truthy()) kept.push_back(item);
      frames_.pop_back();
    }
    TRY(list, rt_.make_list(std::move(kept)));
    return list.shared_list();
  }

  [[gnu::noinline]] Result<Flow> exec_for(const Stmt& stmt) {
    TRY(sequence, eval(*stmt.value));
    TRY(items, items_of(rt_, sequence));
    if (stmt.condition != nullptr) {
      TRY(kept, filtered_items(stmt, *items));
      items = std::move(kept);
    }
    TRY_OK(rt_.spend(256));
    Value* memory = rt_.make_loop_memory();
    for (size_t i = 0; i < items->items.size(); ++i) {
      TRY_OK(rt_.spend());
      push_frame(top());
      assign("loop", Value::loop(std::make_shared<const Loop>(Loop{items, i, memory})));
      TRY_OK(assign_target(*stmt.target, items->items[i]));
      TRY(flow, exec_block(stmt.body));
      frames_.pop_back();
      if (flow == Flow::kBreak) break;
    }
    if (!items->items.empty()) return Flow::kNext;
    push_frame(top());
    TRY(flow, exec_block(stmt.otherwise));
    frames_.pop_back();
    return flow;
  }

  // ---- expressions ----

  Result<Value> eval(const Expr& expr) {
    const Nesting nesting(depth_);
    TRY_OK(enter(expr.line));
    switch (expr.kind) {
      case ExprKind::kLiteral:
        return expr.literal;
      case ExprKind::kName:
        return look_up(expr.name);
      case ExprKind::kList:
      case ExprKind::kTuple:
        return eval_list(expr);
      case ExprKind::kDict:
        return eval_dict(expr);
      case ExprKind::kNot:
      case ExprKind::kNegate:
      case ExprKind::kPlus:
        return eval_unary(expr);
      case ExprKind::kAnd:
      case ExprKind::kOr:
        return eval_logical(expr);
      case ExprKind::kBinary:
        return eval_binary(expr);
      case ExprKind::kConcat:
        return eval_concat(expr);
      case ExprKind::kCompare:
        return eval_compare(expr);
      case ExprKind::kConditional:
        return eval_conditional(expr);
      case ExprKind::kAttribute:
      case ExprKind::kItem:
        return eval_member(expr);
      case ExprKind::kSlice:
        return eval_slice(expr);
      case ExprKind::kCall:
        return eval_call(expr);
      case ExprKind::kFilter:
      case ExprKind::kTest:
        return eval_applied(expr);
    }
    return Value();
  }

  [[gnu::noinline]] Result<Value> eval_list(const Expr& expr) {
    std::vector<Value> items;
    for (const ExprPtr& arg : expr.args) {
      TRY(item, eval(*arg));
      items.push_back(std::move(item));
    }
    return rt_.make_list(std::move(items), expr.kind == ExprKind::kTuple);
  }

  [[gnu::noinline]] Result<Value> eval_dict(const Expr& expr) {
    std::vector<std::pair<Value, Value>> entries;
    for (size_t i = 0; i < expr.args.size(); i += 2) {
      TRY(key, eval(*expr.args[i]));
      TRY(value, eval(*expr.args[i + 1]));
      if (key.depth() > 0) return rt_.fail("a {} cannot be a key", key.type_name());
      size_t place = 0;
      for (; place < entries.size(); ++place) {
        TRY(same, equal(rt_, entries[place].first, key));
        if (same) break;
      }
      if (place == entries.size()) entries.emplace_back(std::move(key), Value());
      entries[place].second = std::move(value);
    }
    return rt_.make_dict(std::move(entries));
  }

  [[gnu::noinline]] Result<Value> eval_unary(const Expr& expr) {
    TRY(operand, eval(*expr.args[0]));
    if (expr.kind == ExprKind::kNot) return Value::boolean(!operand.truthy());
    if (expr.kind == ExprKind::kNegate) return negate(rt_, operand);
    return binary(rt_, BinaryOp::kAdd, Value::integer(0), operand);
  }

  [[gnu::noinline]] Result<Value> eval_logical(const Expr& expr) {
    TRY(left, eval(*expr.args[0]));
    if (left.truthy() == (expr.kind == ExprKind::kOr)) return left;
    return eval(*expr.args[1]);
  }

  [[gnu::noinline]] Result<Value> eval_binary(const Expr& expr) {
    TRY(left, eval(*expr.args[0]));
    TRY(right, eval(*expr.args[1]));
    rt_.line = expr.line;
    return binary(rt_, expr.op, left, right);
  }

  [[gnu::noinline]] Result<Value> eval_concat(const Expr& expr) {
    std::string text;
    for (const ExprPtr& arg : expr.args) {
      TRY(part, eval(*arg));
      TRY_OK(append_str(rt_, part, text));
    }
    return rt_.make_string(std::move(text));
  }

  Result<bool> compare(CompareOp op, const Value& a, const Value& b) {
    switch (op) {
      case CompareOp::kEqual:
      case CompareOp::kNotEqual: {
        TRY(same, equal(rt_, a, b));
        return same == (op == CompareOp::kEqual);
      }
      case CompareOp::kLess:
        return less(rt_, a, b);
      case CompareOp::kGreater:
        return less(rt_, b, a);
      case CompareOp::kLessEqual:
      case CompareOp::kGreaterEqual: {
        const bool swap = op == CompareOp::kGreaterEqual;
        TRY(before, less(rt_, swap ? b : a, swap ? a : b));
        if (before) return true;
        return equal(rt_, a, b);
      }
      case CompareOp::kIn:
      case CompareOp::kNotIn: {
        TRY(found, contains(rt_, b, a));
        return found == (op == CompareOp::kIn);
      }
    }
    return false;
  }

  [[gnu::noinline]] Result<Value> eval_compare(const Expr& expr) {
    TRY(left, eval(*expr.args[0]));
    for (size_t i = 0; i < expr.compares.size(); ++i) {
      TRY(right, eval(*expr.args[i + 1]));
      rt_.line = expr.line;
      TRY(holds, compare(expr.compares[i], left, right));
      if (!holds) return Value::boolean(false);
      left = std::move(right);
    }
    return Value::boolean(true);
  }

  [[gnu::noinline]] Result<Value> eval_conditional(const Expr& expr) {
    TRY(condition, eval(*expr.args[1]));
    if (condition.truthy()) return eval(*expr.args[0]);
    return expr.args[2] == nullptr ? Value::undefined("value of an if without else")
                                   : eval(*expr.args[2]);
  }

  [[gnu::noinline]] Result<Value> eval_member(const Expr& expr) {
    TRY(object, eval(*expr.args[0]));
    if (expr.kind == ExprKind::kAttribute) {
      rt_.line = expr.line;
      return get_attribute(rt_, object, expr.name);
    }
    TRY(key, eval(*expr.args[1]));
    rt_.line = expr.line;
    return get_item(rt_, object, key);
  }

  [[gnu::noinline]] Result<Value> eval_slice(const Expr& expr) {
    Value values[4];
    for (size_t i = 0; i < 4; ++i) {
      if (expr.args[i] == nullptr) continue;
      TRY(value, eval(*expr.args[i]));
      values[i] = std::move(value);
    }
    rt_.line = expr.line;
    return slice(rt_, values[0], values[1], values[2], values[3]);
  }

  [[gnu::noinline]] Result<Args> eval_arguments(const Expr& expr) {
    Args args;
    for (size_t i = 1; i < expr.args.size(); ++i) {
      TRY(value, eval(*expr.args[i]));
      args.positional.push_back(std::move(value));
    }
    for (const auto& [name, arg] : expr.named) {
      TRY(value, eval(*arg));
      args.named.emplace_back(name, std::move(value));
    }
    rt_.line = expr.line;
    return args;
  }

  [[gnu::noinline]] Result<Value> eval_applied(const Expr& expr) {
    TRY(value, eval(*expr.args[0]));
    return apply(expr, value);
  }

  // A filter or test on a value.
  [[gnu::noinline]] Result<Value> apply(const Expr& expr, const Value& value) {
    TRY(args, eval_arguments(expr));
    return invoke(rt_, *expr.function, value, std::move(args));
  }

  [[gnu::noinline]] Result<Value> eval_call(const Expr& expr) {
    TRY(callee, eval(*expr.args[0]));
    TRY(args, eval_arguments(expr));
    if (callee.is(Kind::kUndefined))
      return rt_.fail("{} is undefined", quote(callee.undefined_name()));
    if (!callee.is(Kind::kCallable)) {
      return rt_.fail("a value of type {} cannot be called", callee.type_name());
    }
    const Callable& function = callee.as_callable();
    if (function.macro != nullptr) return call_macro(function, args);
    return invoke(rt_, *function.function, function.self, std::move(args));
  }

  [[gnu::noinline]] Result<Value> call_macro(const Callable& callable, Args& args) {
    const Stmt& macro = *callable.macro;
    if (callable.frame >= frames_.size() || frames_[callable.frame].id != callable.frame_id) {
      return rt_.fail("macro '{}' is called outside of the block that defines it", macro.text);
    }
    if (args.positional.size() > macro.parameters.size()) {
      return rt_.fail("macro '{}': at most {} arguments expected, found {}", macro.text,
                      macro.parameters.size(), args.positional.size());
    }
    push_frame(callable.frame);
    TRY_OK(bind_parameters(macro, args));
    TRY(text, capture(macro.body));
    frames_.pop_back();
    return rt_.make_string(std::move(text));
  }

  [[gnu::noinline]] Status bind_parameters(const Stmt& macro, Args& args) {
    size_t used = 0;
    for (size_t i = 0; i < macro.parameters.size(); ++i) {
      const auto& [name, otherwise] = macro.parameters[i];
      Value value = Value::undefined(name);
      bool given = i < args.positional.size();
      if (given) value = std::move(args.positional[i]);
      for (auto& [named, argument] : args.named) {
        if (named != name) continue;
        if (given) return rt_.fail("macro '{}': argument '{}' given twice", macro.text, name);
        value = std::move(argument);
        given = true;
        ++used;
      }
      if (!given && otherwise != nullptr) {
        TRY(evaluated, eval(*otherwise));
        value = std::move(evaluated);
      }
      assign(name, std::move(value));
    }
    if (used != args.named.size()) {
      return rt_.fail("macro '{}': unknown named argument", macro.text);
    }
    return Ok{};
  }

  Runtime& rt_;
  std::vector<Frame> frames_;
  std::deque<std::string> input_names_;
  uint64_t next_frame_id_ = 0;
  size_t depth_ = 0;
  std::string* out_ = nullptr;
};

}  // namespace

Result<Template> Template::parse(std::string_view text, const Limits& limits) {
  TRY(program, parse_program(text, limits));
  return Template(std::make_shared<const Program>(std::move(program)));
}

Result<std::string> Template::render(const ordered_json& variables,
                                     const RenderOptions& options) const {
  Runtime rt(program_->limits, options);
  return Evaluator(rt).run(program_->body, variables);
}

}  // namespace hf2q::jinja
