#include "serve/http.h"

#include <gtest/gtest.h>

namespace hf2q {
namespace {

TEST(Http, HeadersInAnyCaseAndThePathAlone) {
  HttpRequest request;
  request.target = "/v1/models?x=1?y";
  request.headers = {{"X-Request-ID", "a"}, {"x-request-id", "b"}};
  EXPECT_EQ(header_of(request, "x-request-id"), "a");
  EXPECT_EQ(header_of(request, "x-request-i"), "");
  EXPECT_EQ(path_of(request), "/v1/models");
  request.target = "/health";
  EXPECT_EQ(path_of(request), "/health");
}

}  // namespace
}  // namespace hf2q
