#pragma once
// One --tensor-type REGEX=TYPE: the tensors whose name the expression is found in get the type.

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/tensor_type.h"

namespace hf2q {

class TypeOverride {
 public:
  // Splits at the last '='. The expression is ECMAScript (at most 1000 characters) and is made
  // lower case first, as the reference quantizer does: "\D" means "\d". Tensor names are lower
  // case. kInvalidArgument, naming `text`: no '=', no expression, a bad one, or a type that cannot
  // be encoded.
  static Result<TypeOverride> parse(std::string_view text);

  // Searched anywhere in the name; "^" and "$" anchor it. Fails where the expression is too complex
  // for the matcher.
  Result<bool> matches(std::string_view tensor_name) const;

  TensorType type() const { return type_; }
  const std::string& text() const { return text_; }  // as it was given

 private:
  struct Pattern;  // std::regex, kept out of this header
  TypeOverride(std::string text, std::shared_ptr<const Pattern> pattern, TensorType type)
      : text_(std::move(text)), pattern_(std::move(pattern)), type_(type) {}

  std::string text_;
  std::shared_ptr<const Pattern> pattern_;
  TensorType type_;
};

}  // namespace hf2q
