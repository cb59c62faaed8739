#pragma once
// value_of(result): its value; a failure with the error's message ends the test program.

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "base/result.h"

namespace hf2q::testing_support {

template <class T>
T value_of(Result<T> result) {
  if (!result.ok()) {
    fmt::print(stderr, "a value expected, found the error: {}\n", result.error().message);
    std::abort();
  }
  return std::move(result.value());
}

}  // namespace hf2q::testing_support
