#include "serve/http.h"

#include <algorithm>

namespace hf2q {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool same_letters(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lower, lower);
}

}  // namespace

std::string_view header_of(const HttpRequest& request, std::string_view name) {
  for (const auto& [key, value] : request.headers) {
    if (same_letters(key, name)) return value;
  }
  return {};
}

std::string_view path_of(const HttpRequest& request) {
  return std::string_view(request.target).substr(0, request.target.find('?'));
}

}  // namespace hf2q
