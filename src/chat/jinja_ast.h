#pragma once
// A parsed template.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chat/jinja.h"
#include "chat/jinja_ops.h"
#include "chat/jinja_value.h"

namespace hf2q::jinja {

enum class ExprKind {
  kLiteral,      // literal
  kName,         // name
  kList,         // args: the items
  kTuple,        // args: the items
  kDict,         // args: key, value, key, value, ...
  kNot,          // args: operand
  kNegate,       // args: operand
  kPlus,         // args: operand
  kAnd,          // args: left, right
  kOr,           // args: left, right
  kBinary,       // op; args: left, right
  kConcat,       // args: the parts
  kCompare,      // compares; args: first, then one for each of them
  kConditional,  // args: value, condition, and what is taken where it is false (may be null)
  kAttribute,    // args: object; name
  kItem,         // args: object, key
  kSlice,        // args: object, start, stop, step (the last three may be null)
  kCall,         // args: callee, positional arguments; named
  kFilter,       // function; args: value, positional arguments; named
  kTest,         // as kFilter
};

enum class CompareOp { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  ExprKind kind = ExprKind::kLiteral;
  int line = 0;
  size_t depth = 1;  // 1 + the deepest child
  std::string name;
  Value literal;
  BinaryOp op = BinaryOp::kAdd;
  std::vector<CompareOp> compares;
  const Function* function = nullptr;
  std::vector<ExprPtr> args;
  std::vector<std::pair<std::string, ExprPtr>> named;
};

enum class StmtKind {
  kText,      // text
  kOutput,    // value
  kIf,        // branches, otherwise
  kFor,       // target, value (the sequence), condition (may be null), body, otherwise
  kSet,       // target, value
  kSetBlock,  // target, body, filters
  kMacro,     // text (its name), parameters, body
  kBreak,
  kContinue,
};

struct Stmt;
using Block = std::vector<std::unique_ptr<Stmt>>;

struct Branch {
  ExprPtr condition;
  Block body;
};

struct Stmt {
  StmtKind kind = StmtKind::kText;
  int line = 0;
  std::string text;
  ExprPtr target;  // kName, kTuple of targets, or (kSet, kSetBlock) kAttribute of a kName
  ExprPtr value;
  ExprPtr condition;
  std::vector<ExprPtr> filters;  // kFilter without the first of args
  std::vector<Branch> branches;
  std::vector<std::pair<std::string, ExprPtr>> parameters;  // with defaults, which may be null
  Block body;
  Block otherwise;
};

struct Program {
  Limits limits;
  Block body;
};

Result<Program> parse_program(std::string_view text, const Limits& limits);

}  // namespace hf2q::jinja
