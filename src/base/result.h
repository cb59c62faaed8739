#pragma once
// Result<T>: a value, or an Error that says what input was wrong.
// For what the world gets wrong (files, flags, requests, memory); a caller's mistake is a CHECK.

#include <fmt/format.h>

#include <string>
#include <utility>
#include <variant>

namespace hf2q {

enum class ErrorCode {
  kInvalidArgument,  // a flag or an argument that cannot be meant
  kNotFound,         // a file, tensor or key that should be there and readable
  kCorrupt,          // input that breaks its format
  kUnsupported,      // valid input that this program does not handle
  kOutOfMemory,
  kIo,  // the operating system refused to write (disk full, permission)
};

struct Error {
  ErrorCode code;
  std::string message;  // names the file, tensor or field, the expected and the found value
};

// error(code, "{}: {} expected, found {}", ...): the usual way to make one.
Error format_error(ErrorCode code, fmt::string_view text, fmt::format_args args);
template <class... Args>
Error error(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) {
  return format_error(code, text, fmt::make_format_args(args...));
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT: implicit by design
  Result(Error error) : state_(std::move(error)) {}  // NOLINT: implicit by design
  bool ok() const { return state_.index() == 0; }
  T& value() { return std::get<0>(state_); }
  const T& value() const { return std::get<0>(state_); }
  Error& error() { return std::get<1>(state_); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

// Status: a Result without a value. `return Ok{};` says that all went well.
struct Ok {};
using Status = Result<Ok>;

}  // namespace hf2q

#define HF2Q_CONCAT_INNER(a, b) a##b
#define HF2Q_CONCAT(a, b) HF2Q_CONCAT_INNER(a, b)
#define HF2Q_TRY_IMPL(tmp, var, expr)           \
  auto tmp = (expr);                            \
  if (!tmp.ok()) return std::move(tmp.error()); \
  auto var = std::move(tmp.value())

// TRY(x, f()): x is f()'s value, or this function returns f()'s error. TRY_OK(f()): the same for a
// Status.
#define TRY(var, expr) HF2Q_TRY_IMPL(HF2Q_CONCAT(try_, __LINE__), var, expr)
#define TRY_OK(expr)                                            \
  do {                                                          \
    auto try_status = (expr);                                   \
    if (!try_status.ok()) return std::move(try_status.error()); \
  } while (false)
