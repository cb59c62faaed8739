#pragma once
// Fields of a request's JSON object. One that is absent or null leaves its target as it is; the
// first one of a wrong type or range is remembered and named.

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace hf2q {

class Fields {
 public:
  // `place`: what the object is called in messages, "" for the body. CHECKs that it is an object;
  // it has to outlive this one.
  explicit Fields(const nlohmann::ordered_json& object, std::string place = "");

  // The field, or nullptr where it is absent or null.
  const nlohmann::ordered_json* find(const char* name) const;

  void read(const char* name, bool& target);
  void read(const char* name, std::string& target);
  void read(const char* name, float& target);
  // Whole numbers, also when written as 5.0.
  void read(const char* name, int64_t& target, int64_t low, int64_t high);
  void read_one_of(const char* name, std::string& target,
                   std::initializer_list<std::string_view> words);
  template <class T, class... Range>
  void read(const char* name, std::optional<T>& target, Range... range) {
    T value = {};
    if (find(name) == nullptr) return;
    read(name, value, range...);
    target = value;
  }
  // An object, array, ... as it is; `kind` is "an object" or "an array".
  void read_structured(const char* name, nlohmann::ordered_json& target, std::string_view kind);

  // "top_p: a number expected, found true"
  void refuse(const char* name, std::string_view expected);
  // The first error.
  Status status() const;

 private:
  const nlohmann::ordered_json& object_;
  std::string place_;
  std::optional<Error> error_;
};

}  // namespace hf2q
