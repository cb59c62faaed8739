// Tokens to a tree, by recursive descent. Precedence, loosest first:
//   x if c else y;  or;  and;  not;  == != < <= > >= in, not in;  + -;  ~;  * / // %;  **;
//   unary - +;  x.name x[i] x(...);  x|filter, x is test

#include <algorithm>
#include <array>

#include "base/quote.h"
#include "chat/jinja_ast.h"
#include "chat/jinja_lexer.h"

namespace hf2q::jinja {
namespace {

struct BinaryToken {
  std::string_view text;
  BinaryOp op;
};
using Level = std::vector<BinaryToken>;

constexpr std::pair<std::string_view, CompareOp> kCompares[] = {
    {"==", CompareOp::kEqual},     {"!=", CompareOp::kNotEqual}, {"<", CompareOp::kLess},
    {"<=", CompareOp::kLessEqual}, {">", CompareOp::kGreater},   {">=", CompareOp::kGreaterEqual}};

constexpr std::string_view kRefusedTags[] = {"autoescape", "block",  "call", "do",
                                             "extends",    "filter", "from", "import",
                                             "include",    "trans",  "with"};

class Parser {
 public:
  Parser(std::vector<Token> tokens, const Limits& limits)
      : tokens_(std::move(tokens)), limits_(limits) {}

  Result<Block> run() {
    TRY(body, parse_block({}));
    return body;
  }

 private:
  using Exprs = std::vector<ExprPtr>;

  const Token& peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  Token take() { return at_ + 1 < tokens_.size() ? std::move(tokens_[at_++]) : tokens_[at_]; }
  bool at(TokenKind kind) const { return peek().kind == kind; }
  bool at_op(std::string_view op) const { return at(TokenKind::kOperator) && peek().text == op; }
  bool at_word(std::string_view word, size_t ahead = 0) const {
    return peek(ahead).kind == TokenKind::kName && peek(ahead).text == word;
  }
  bool accept_op(std::string_view op) { return at_op(op) && (++at_, true); }
  bool accept_word(std::string_view word) { return at_word(word) && (++at_, true); }

  Error fail(ErrorCode code, std::string_view what) const {
    return error(code, "chat template, line {}: {}", peek().line, what);
  }
  Error unexpected(std::string_view wanted) const {
    static constexpr std::string_view kNames[] = {"text", "'{{'", "'}}'", "'{%'", "'%}'"};
    const auto kind = static_cast<size_t>(peek().kind);
    if (at(TokenKind::kEnd)) {
      return fail(ErrorCode::kCorrupt, fmt::format("{} expected, found the end", wanted));
    }
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("{} expected, found {}", wanted,
                    kind < std::size(kNames) ? std::string(kNames[kind]) : quote(peek().text)));
  }
  Status expect_op(std::string_view op) {
    return accept_op(op) ? Status(Ok{}) : Status(unexpected(fmt::format("'{}'", op)));
  }
  Status expect_word(std::string_view word) {
    return accept_word(word) ? Status(Ok{}) : Status(unexpected(fmt::format("'{}'", word)));
  }
  Result<std::string> expect_name() {
    if (!at(TokenKind::kName)) return unexpected("a name");
    return take().text;
  }
  Status expect_block_end() {
    if (!at(TokenKind::kBlockEnd)) return unexpected("'%}'");
    ++at_;
    return Ok{};
  }

  // Bounds the recursion of this parser: held by each function that can contain itself.
  class Nesting {
   public:
    explicit Nesting(size_t& depth) : depth_(depth) { ++depth_; }
    ~Nesting() { --depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    size_t& depth_;
  };
  Status check_depth(size_t depth) const {
    if (depth <= limits_.max_nesting) return Ok{};
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("nested more than {} deep", limits_.max_nesting));
  }

  // ---- expressions ----

  Result<ExprPtr> make(ExprKind kind, int line, Exprs args, std::string name = {}) {
    auto expr = std::make_unique<Expr>();
    expr->kind = kind;
    expr->line = line;
    expr->name = std::move(name);
    expr->args = std::move(args);
    return sealed(std::move(expr));
  }

  // Sets the depth, once all children are there: it bounds the recursion of whoever walks the tree.
  Result<ExprPtr> sealed(ExprPtr expr) const {
    const auto include = [&expr](const ExprPtr& child) {
      if (child != nullptr) expr->depth = std::max(expr->depth, child->depth + 1);
    };
    for (const ExprPtr& child : expr->args) include(child);
    for (const auto& [unused, child] : expr->named) include(child);
    TRY_OK(check_depth(expr->depth));
    return expr;
  }

  template <class... Children>
  static Exprs list_of(Children... children) {
    Exprs list;
    (list.push_back(std::move(children)), ...);
    return list;
  }

  Result<ExprPtr> make_literal(int line, Value value) {
    TRY(expr, make(ExprKind::kLiteral, line, {}));
    expr->literal = std::move(value);
    return expr;
  }

  Result<ExprPtr> parse_expression() {
    const Nesting nesting(depth_);
    TRY_OK(check_depth(depth_));
    TRY(expr, parse_or());
    while (at_word("if")) {
      const int line = take().line;
      TRY(condition, parse_or());
      ExprPtr otherwise;
      if (accept_word("else")) {
        TRY(parsed, parse_expression());
        otherwise = std::move(parsed);
      }
      TRY(node, make(ExprKind::kConditional, line,
                     list_of(std::move(expr), std::move(condition), std::move(otherwise))));
      expr = std::move(node);
    }
    return expr;
  }

  Result<ExprPtr> parse_or() {
    TRY(left, parse_and());
    while (at_word("or")) {
      const int line = take().line;
      TRY(right, parse_and());
      TRY(node, make(ExprKind::kOr, line, list_of(std::move(left), std::move(right))));
      left = std::move(node);
    }
    return left;
  }

  Result<ExprPtr> parse_and() {
    TRY(left, parse_not());
    while (at_word("and")) {
      const int line = take().line;
      TRY(right, parse_not());
      TRY(node, make(ExprKind::kAnd, line, list_of(std::move(left), std::move(right))));
      left = std::move(node);
    }
    return left;
  }

  Result<ExprPtr> parse_not() {
    if (!at_word("not")) return parse_compare();
    const Nesting nesting(depth_);
    TRY_OK(check_depth(depth_));
    const int line = take().line;
    TRY(operand, parse_not());
    return make(ExprKind::kNot, line, list_of(std::move(operand)));
  }

  bool accept_compare(CompareOp* op) {
    for (const auto& [text, compare] : kCompares) {
      *op = compare;
      if (accept_op(text)) return true;
    }
    *op = CompareOp::kIn;
    if (accept_word("in")) return true;
    if (!at_word("not") || !at_word("in", 1)) return false;
    *op = CompareOp::kNotIn;
    at_ += 2;
    return true;
  }

  Result<ExprPtr> parse_compare() {
    const int line = peek().line;
    TRY(first, parse_binary(0));
    Exprs args = list_of(std::move(first));
    std::vector<CompareOp> compares;
    CompareOp op{};
    while (accept_compare(&op)) {
      TRY(next, parse_binary(0));
      compares.push_back(op);
      args.push_back(std::move(next));
    }
    if (compares.empty()) return std::move(args[0]);
    TRY(expr, make(ExprKind::kCompare, line, std::move(args)));
    expr->compares = std::move(compares);
    return expr;
  }

  // Levels: 0 is + -, 1 is ~, 2 is * / // %, 3 is **.
  Result<ExprPtr> parse_binary(size_t level) {
    static const std::array<Level, 4> kLevels = {
        Level{{"+", BinaryOp::kAdd}, {"-", BinaryOp::kSubtract}}, Level{},
        Level{{"*", BinaryOp::kMultiply},
              {"/", BinaryOp::kDivide},
              {"//", BinaryOp::kFloorDivide},
              {"%", BinaryOp::kModulo}},
        Level{{"**", BinaryOp::kPower}}};
    if (level == kLevels.size()) return parse_unary(true);
    if (level == 1) return parse_concat();
    TRY(left, parse_binary(level + 1));
    while (true) {
      const auto& ops = kLevels[level];
      const auto op = std::find_if(ops.begin(), ops.end(),
                                   [this](const BinaryToken& token) { return at_op(token.text); });
      if (op == ops.end()) return left;
      const int line = take().line;
      TRY(right, parse_binary(level + 1));
      TRY(node, make(ExprKind::kBinary, line, list_of(std::move(left), std::move(right))));
      node->op = op->op;
      left = std::move(node);
    }
  }

  Result<ExprPtr> parse_concat() {
    const int line = peek().line;
    TRY(first, parse_binary(2));
    if (!at_op("~")) return first;
    Exprs parts = list_of(std::move(first));
    while (accept_op("~")) {
      TRY(part, parse_binary(2));
      parts.push_back(std::move(part));
    }
    return make(ExprKind::kConcat, line, std::move(parts));
  }

  Result<ExprPtr> parse_unary(bool with_filters) {
    const Nesting nesting(depth_);
    TRY_OK(check_depth(depth_));
    ExprPtr expr;
    if (at_op("-") || at_op("+")) {
      const Token sign = take();
      TRY(operand, parse_unary(false));
      TRY(node, make(sign.text == "-" ? ExprKind::kNegate : ExprKind::kPlus, sign.line,
                     list_of(std::move(operand))));
      expr = std::move(node);
    } else {
      TRY(primary, parse_primary());
      expr = std::move(primary);
    }
    TRY(postfixed, parse_postfix(std::move(expr)));
    if (!with_filters) return postfixed;
    return parse_filters(std::move(postfixed));
  }

  Result<ExprPtr> parse_primary() {
    const int line = peek().line;
    if (at(TokenKind::kName)) return parse_name();
    if (at(TokenKind::kString)) {
      std::string text;
      while (at(TokenKind::kString)) text += take().text;
      return make_literal(line, Value::string(std::move(text)));
    }
    if (at(TokenKind::kInteger)) return make_literal(line, Value::integer(take().integer));
    if (at(TokenKind::kFloat)) return make_literal(line, Value::number(take().number));
    if (accept_op("(")) {
      TRY(expr, parse_tuple(true));
      TRY_OK(expect_op(")"));
      return expr;
    }
    if (accept_op("[")) {
      TRY(items, parse_items("]"));
      return make(ExprKind::kList, line, std::move(items));
    }
    if (accept_op("{")) return parse_dict(line);
    return unexpected("an expression");
  }

  Result<ExprPtr> parse_name() {
    const Token token = take();
    const std::string& name = token.text;
    if (name == "true" || name == "True") return make_literal(token.line, Value::boolean(true));
    if (name == "false" || name == "False") return make_literal(token.line, Value::boolean(false));
    if (name == "none" || name == "None") return make_literal(token.line, Value::none());
    return make(ExprKind::kName, token.line, {}, name);
  }

  // Expressions up to `close`, which is taken; a comma may stand before it.
  Result<Exprs> parse_items(std::string_view close) {
    Exprs items;
    while (!accept_op(close)) {
      if (!items.empty()) TRY_OK(expect_op(","));
      if (!items.empty() && accept_op(close)) break;
      TRY(item, parse_expression());
      items.push_back(std::move(item));
    }
    return items;
  }

  Result<ExprPtr> parse_dict(int line) {
    Exprs args;
    while (!accept_op("}")) {
      if (!args.empty()) TRY_OK(expect_op(","));
      if (!args.empty() && accept_op("}")) break;
      TRY(key, parse_expression());
      TRY_OK(expect_op(":"));
      TRY(value, parse_expression());
      args.push_back(std::move(key));
      args.push_back(std::move(value));
    }
    return make(ExprKind::kDict, line, std::move(args));
  }

  bool at_tuple_end() const {
    return at(TokenKind::kVariableEnd) || at(TokenKind::kBlockEnd) || at_op(")");
  }

  // One expression, or several parted by commas: a tuple.
  Result<ExprPtr> parse_tuple(bool may_be_empty) {
    const int line = peek().line;
    Exprs items;
    bool tuple = false;
    while (!at_tuple_end()) {
      TRY(item, parse_expression());
      items.push_back(std::move(item));
      if (!accept_op(",")) break;
      tuple = true;
    }
    if (!tuple && items.size() == 1) return std::move(items[0]);
    if (items.empty() && !may_be_empty) return unexpected("an expression");
    return make(ExprKind::kTuple, line, std::move(items));
  }

  Result<ExprPtr> parse_postfix(ExprPtr expr) {
    while (true) {
      const int line = peek().line;
      Result<ExprPtr> next = Error{};
      if (accept_op(".")) {
        next = parse_attribute(std::move(expr), line);
      } else if (accept_op("[")) {
        next = parse_subscript(std::move(expr), line);
      } else if (accept_op("(")) {
        next = parse_arguments(std::move(expr), ExprKind::kCall, nullptr, line);
      } else {
        return expr;
      }
      if (!next.ok()) return next;
      expr = std::move(next.value());
    }
  }

  Result<ExprPtr> parse_attribute(ExprPtr object, int line) {
    if (at(TokenKind::kInteger)) {
      TRY(index, make_literal(line, Value::integer(take().integer)));
      return make(ExprKind::kItem, line, list_of(std::move(object), std::move(index)));
    }
    TRY(name, expect_name());
    return make(ExprKind::kAttribute, line, list_of(std::move(object)), std::move(name));
  }

  // One bound of a slice; null where there is none.
  Result<ExprPtr> parse_bound() {
    if (at_op(":") || at_op("]")) return ExprPtr();
    return parse_expression();
  }

  Result<ExprPtr> parse_subscript(ExprPtr object, int line) {
    TRY(start, parse_bound());
    if (!accept_op(":")) {
      if (start == nullptr) return unexpected("an index");
      TRY_OK(expect_op("]"));
      return make(ExprKind::kItem, line, list_of(std::move(object), std::move(start)));
    }
    TRY(stop, parse_bound());
    ExprPtr step;
    if (accept_op(":")) {
      TRY(parsed, parse_bound());
      step = std::move(parsed);
    }
    TRY_OK(expect_op("]"));
    return make(ExprKind::kSlice, line,
                list_of(std::move(object), std::move(start), std::move(stop), std::move(step)));
  }

  // (a, b, name=c): after the opening bracket. `first` is the callee or the filtered value, which
  // may be null (of a set block's filter).
  Result<ExprPtr> parse_arguments(ExprPtr first, ExprKind kind, const Function* function,
                                  int line) {
    auto expr = std::make_unique<Expr>();
    expr->kind = kind;
    expr->line = line;
    expr->function = function;
    expr->args.push_back(std::move(first));
    bool some = false;
    while (!accept_op(")")) {
      if (some) TRY_OK(expect_op(","));
      if (some && accept_op(")")) break;
      some = true;
      if (at_op("*") || at_op("**")) {
        return fail(ErrorCode::kUnsupported, "* and ** arguments are not supported");
      }
      TRY_OK(parse_argument(*expr));
    }
    return sealed(std::move(expr));
  }

  Status parse_argument(Expr& call) {
    if (at(TokenKind::kName) && peek(1).kind == TokenKind::kOperator && peek(1).text == "=") {
      std::string name = take().text;
      ++at_;
      TRY(value, parse_expression());
      call.named.emplace_back(std::move(name), std::move(value));
      return Ok{};
    }
    if (!call.named.empty()) return unexpected("a named argument");
    TRY(value, parse_expression());
    call.args.push_back(std::move(value));
    return Ok{};
  }

  Result<ExprPtr> parse_filters(ExprPtr expr) {
    while (true) {
      const int line = peek().line;
      Result<ExprPtr> next = Error{};
      if (accept_op("|")) {
        next = parse_filter(std::move(expr), line);
      } else if (accept_word("is")) {
        next = parse_test(std::move(expr), line);
      } else if (accept_op("(")) {
        next = parse_arguments(std::move(expr), ExprKind::kCall, nullptr, line);
      } else {
        return expr;
      }
      if (!next.ok()) return next;
      expr = std::move(next.value());
    }
  }

  Result<ExprPtr> parse_filter(ExprPtr value, int line) {
    TRY(name, expect_name());
    const Function* function = find_filter(name);
    if (function == nullptr) {
      return fail(ErrorCode::kUnsupported, fmt::format("no filter {}", quote(name)));
    }
    if (accept_op("(")) return parse_arguments(std::move(value), ExprKind::kFilter, function, line);
    return apply(ExprKind::kFilter, function, line, list_of(std::move(value)));
  }

  Result<ExprPtr> apply(ExprKind kind, const Function* function, int line, Exprs args) {
    TRY(expr, make(kind, line, std::move(args)));
    expr->function = function;
    return expr;
  }

  Result<ExprPtr> parse_test(ExprPtr value, int line) {
    const bool negated = accept_word("not");
    TRY(name, expect_name());
    const Function* function = find_test(name);
    if (function == nullptr) {
      return fail(ErrorCode::kUnsupported, fmt::format("no test {}", quote(name)));
    }
    TRY(test, parse_test_arguments(std::move(value), function, line));
    if (!negated) return test;
    return make(ExprKind::kNot, line, list_of(std::move(test)));
  }

  // In brackets, or a single one without.
  Result<ExprPtr> parse_test_arguments(ExprPtr value, const Function* function, int line) {
    if (accept_op("(")) return parse_arguments(std::move(value), ExprKind::kTest, function, line);
    Exprs args = list_of(std::move(value));
    const bool word = at_word("else") || at_word("or") || at_word("and") || at_word("if") ||
                      at_word("is") || at_word("in") || at_word("not");
    const bool begins = at(TokenKind::kName) || at(TokenKind::kString) || at(TokenKind::kInteger) ||
                        at(TokenKind::kFloat) || at_op("[") || at_op("{");
    if (begins && !word) {
      TRY(primary, parse_primary());
      TRY(argument, parse_postfix(std::move(primary)));
      args.push_back(std::move(argument));
    }
    return apply(ExprKind::kTest, function, line, std::move(args));
  }

  // ---- statements ----

  // Statements up to one of the tags `ends`, whose name is taken; up to the end of the template
  // where there are none.
  Result<Block> parse_block(std::vector<std::string_view> ends) {
    const Nesting nesting(depth_);
    TRY_OK(check_depth(depth_));
    Block block;
    while (true) {
      if (at(TokenKind::kEnd)) {
        if (!ends.empty()) return unexpected(fmt::format("'{{% {} %}}'", ends.back()));
        return block;
      }
      if (at(TokenKind::kBlockBegin)) {
        const auto is_end = [this](std::string_view end) { return at_word(end, 1); };
        if (std::any_of(ends.begin(), ends.end(), is_end)) {
          ++at_;
          return block;
        }
        TRY_OK(parse_tag(block));
        continue;
      }
      TRY_OK(parse_output(block));
    }
  }

  Stmt& add(Block& block, StmtKind kind, int line) {
    Stmt& stmt = *block.emplace_back(std::make_unique<Stmt>());
    stmt.kind = kind;
    stmt.line = line;
    return stmt;
  }

  Status parse_output(Block& block) {
    const int line = peek().line;
    if (at(TokenKind::kText)) {
      add(block, StmtKind::kText, line).text = take().text;
      return Ok{};
    }
    if (!at(TokenKind::kVariableBegin)) return unexpected("text");
    ++at_;
    TRY(value, parse_tuple(false));
    if (!at(TokenKind::kVariableEnd)) return unexpected("'}}'");
    ++at_;
    add(block, StmtKind::kOutput, line).value = std::move(value);
    return Ok{};
  }

  Status parse_tag(Block& block) {
    ++at_;
    const int line = peek().line;
    TRY(tag, expect_name());
    if (tag == "if") return parse_if(add(block, StmtKind::kIf, line));
    if (tag == "for") return parse_for(add(block, StmtKind::kFor, line));
    if (tag == "set") return parse_set(add(block, StmtKind::kSet, line));
    if (tag == "macro") return parse_macro(add(block, StmtKind::kMacro, line));
    if (tag == "generation") return parse_generation(block);
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) return fail(ErrorCode::kCorrupt, fmt::format("'{}' outside of a loop", tag));
      add(block, tag == "break" ? StmtKind::kBreak : StmtKind::kContinue, line);
      return expect_block_end();
    }
    if (std::find(std::begin(kRefusedTags), std::end(kRefusedTags), tag) !=
        std::end(kRefusedTags)) {
      return fail(ErrorCode::kUnsupported, fmt::format("tag '{}' is not supported", tag));
    }
    return fail(ErrorCode::kCorrupt, fmt::format("unknown tag {}", quote(tag)));
  }

  // Marks what a model answered, for training; here its content is like any other.
  Status parse_generation(Block& block) {
    TRY_OK(expect_block_end());
    TRY(body, parse_block({"endgeneration"}));
    ++at_;
    std::move(body.begin(), body.end(), std::back_inserter(block));
    return expect_block_end();
  }

  Status parse_if(Stmt& stmt) {
    while (true) {
      TRY(condition, parse_tuple(false));
      TRY_OK(expect_block_end());
      TRY(body, parse_block({"elif", "else", "endif"}));
      stmt.branches.push_back({std::move(condition), std::move(body)});
      if (accept_word("elif")) continue;
      if (accept_word("else")) {
        TRY_OK(expect_block_end());
        TRY(otherwise, parse_block({"endif"}));
        stmt.otherwise = std::move(otherwise);
      }
      TRY_OK(expect_word("endif"));
      return expect_block_end();
    }
  }

  // name | name.attribute | a, (b, c)
  Result<ExprPtr> parse_target(bool with_attribute) {
    const int line = peek().line;
    if (with_attribute && peek(1).kind == TokenKind::kOperator && peek(1).text == ".") {
      TRY(name, expect_name());
      ++at_;
      TRY(attribute, expect_name());
      TRY(object, make(ExprKind::kName, line, {}, std::move(name)));
      return make(ExprKind::kAttribute, line, list_of(std::move(object)), std::move(attribute));
    }
    Exprs targets;
    bool tuple = false;
    while (true) {
      TRY(target, parse_single_target());
      targets.push_back(std::move(target));
      if (!accept_op(",")) break;
      tuple = true;
      if (!at(TokenKind::kName) && !at_op("(")) break;
    }
    if (!tuple) return std::move(targets[0]);
    return make(ExprKind::kTuple, line, std::move(targets));
  }

  Result<ExprPtr> parse_single_target() {
    const Nesting nesting(depth_);
    TRY_OK(check_depth(depth_));
    if (accept_op("(")) {
      TRY(target, parse_target(false));
      TRY_OK(expect_op(")"));
      return target;
    }
    const int line = peek().line;
    TRY(name, expect_name());
    return make(ExprKind::kName, line, {}, std::move(name));
  }

  Status parse_for(Stmt& stmt) {
    TRY(target, parse_target(false));
    TRY_OK(expect_word("in"));
    TRY(sequence, parse_sequence());
    stmt.target = std::move(target);
    stmt.value = std::move(sequence);
    if (accept_word("if")) {
      TRY(condition, parse_expression());
      stmt.condition = std::move(condition);
    }
    if (at_word("recursive")) {
      return fail(ErrorCode::kUnsupported, "recursive loops are not supported");
    }
    TRY_OK(expect_block_end());
    ++loops_;
    TRY(body, parse_block({"else", "endfor"}));
    --loops_;
    stmt.body = std::move(body);
    if (accept_word("else")) {
      TRY_OK(expect_block_end());
      TRY(otherwise, parse_block({"endfor"}));
      stmt.otherwise = std::move(otherwise);
    }
    TRY_OK(expect_word("endfor"));
    return expect_block_end();
  }

  // What a loop goes over: an `if` after it is the loop's filter, not a conditional expression.
  Result<ExprPtr> parse_sequence() {
    const int line = peek().line;
    Exprs items;
    do {
      TRY(item, parse_or());
      items.push_back(std::move(item));
    } while (accept_op(","));
    if (items.size() == 1) return std::move(items[0]);
    return make(ExprKind::kTuple, line, std::move(items));
  }

  Status parse_set(Stmt& stmt) {
    TRY(target, parse_target(true));
    stmt.target = std::move(target);
    if (accept_op("=")) {
      TRY(value, parse_tuple(false));
      stmt.value = std::move(value);
      return expect_block_end();
    }
    stmt.kind = StmtKind::kSetBlock;
    while (at_op("|")) {
      const int line = take().line;
      TRY(filter, parse_filter(nullptr, line));
      stmt.filters.push_back(std::move(filter));
    }
    TRY_OK(expect_block_end());
    TRY(body, parse_block({"endset"}));
    stmt.body = std::move(body);
    ++at_;
    return expect_block_end();
  }

  Status parse_macro(Stmt& stmt) {
    TRY(name, expect_name());
    stmt.text = std::move(name);
    TRY_OK(expect_op("("));
    while (!accept_op(")")) {
      if (!stmt.parameters.empty()) TRY_OK(expect_op(","));
      if (!stmt.parameters.empty() && accept_op(")")) break;
      TRY(parameter, expect_name());
      ExprPtr otherwise;
      if (accept_op("=")) {
        TRY(value, parse_expression());
        otherwise = std::move(value);
      }
      stmt.parameters.emplace_back(std::move(parameter), std::move(otherwise));
    }
    TRY_OK(expect_block_end());
    const size_t loops = std::exchange(loops_, 0);
    TRY(body, parse_block({"endmacro"}));
    loops_ = loops;
    stmt.body = std::move(body);
    ++at_;
    return expect_block_end();
  }

  std::vector<Token> tokens_;
  const Limits& limits_;
  size_t at_ = 0;
  size_t depth_ = 0;
  size_t loops_ = 0;  // around the current statement, within its macro
};

}  // namespace

Result<Program> parse_program(std::string_view text, const Limits& limits) {
  if (text.size() > limits.max_template_bytes) {
    return error(ErrorCode::kInvalidArgument, "chat template: at most {} bytes expected, found {}",
                 limits.max_template_bytes, text.size());
  }
  TRY(tokens, tokenize(text));
  TRY(body, Parser(std::move(tokens), limits).run());
  Program program;
  program.limits = limits;
  program.body = std::move(body);
  return program;
}

}  // namespace hf2q::jinja
