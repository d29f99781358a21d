#include "http/endpoint.hpp"

#include <gtest/gtest.h>

namespace headgate::http {
namespace {

TEST(Endpoint, IsAPathOrAHostAndPort) {
  EXPECT_EQ(parse_endpoint("/run/x.sock"), (Endpoint{.path = "/run/x.sock"}));
  EXPECT_EQ(parse_endpoint("unix:/run/x.sock"), (Endpoint{.path = "/run/x.sock"}));
  EXPECT_EQ(parse_endpoint("127.0.0.1:80"), (Endpoint{.host = "127.0.0.1", .port = 80}));
  EXPECT_EQ(parse_endpoint("http://node-1:8080/"), (Endpoint{.host = "node-1", .port = 8080}));
  EXPECT_EQ(parse_endpoint("[::1]:9"), (Endpoint{.host = "::1", .port = 9}));
  EXPECT_EQ(parse_endpoint("[::1]:9")->text(), "[::1]:9");
}

TEST(Endpoint, RefusesTextThatNamesNoServer) {
  for (const std::string text : {"", "x.sock", "unix:x.sock", "host", "host:", "host:0", "host:65536", "host:1x", ":80",
                                 "https://host:80", "http://u@host:80", "::1:80", "http://host:80/path"}) {
    const auto endpoint = parse_endpoint(text);
    ASSERT_FALSE(endpoint) << text;
    EXPECT_EQ(endpoint.error().message, "'" + text + "' names no server");
  }
  EXPECT_EQ(parse_endpoint("/" + std::string(107, 'x')).error().hint, "accepted: at most 107 bytes");
}

}  // namespace
}  // namespace headgate::http
