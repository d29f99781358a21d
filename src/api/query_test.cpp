#include "api/body.hpp"

#include <gtest/gtest.h>

namespace headgate::api {
namespace {

http::Request with(const std::string& name, const std::string& value) {
  http::Request request;
  request.query.push_back({name, value});
  return request;
}

TEST(Query, AFalseFlagIsNotTrue) {
  EXPECT_FALSE(flag_in({}, "everyone").value()) << "nothing was said";
  for (const char* yes : {"1", "true"}) EXPECT_TRUE(flag_in(with("everyone", yes), "everyone").value());
  for (const char* no : {"0", "false"}) EXPECT_FALSE(flag_in(with("everyone", no), "everyone").value());
  for (const char* word : {"", "no", "yes", "2", "01", "True"}) {
    const auto flag = flag_in(with("everyone", word), "everyone");
    ASSERT_FALSE(flag) << word;
    EXPECT_EQ(flag.error().code, ErrorCode::usage);
    EXPECT_EQ(flag.error().message, "everyone='" + std::string(word) + "' is neither yes nor no");
    EXPECT_EQ(flag.error().hint, "accepted: 1 or true; 0 or false is as if it were not there");
  }
}

}  // namespace
}  // namespace headgate::api
