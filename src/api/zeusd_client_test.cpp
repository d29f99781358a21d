// Bytes captured from Zeus's Python client (httpx, zeus 0.16).
#include <gtest/gtest.h>

#include "api/test_zeusd.hpp"

namespace headgate::api {
namespace {

using nlohmann::json;

std::string httpx(const std::string& first_line, const std::string& more = "") {
  return first_line +
         " HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\n"
         "User-Agent: python-httpx/0.28.1\r\n" +
         more + "\r\n";
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
  return found;
}

class ZeusClient : public testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] http::Endpoint endpoint() const {
    return GetParam() ? bench.server->tcp_endpoint() : bench.server->unix_endpoint();
  }
  ZeusdBench bench;
};
INSTANTIATE_TEST_SUITE_P(Over, ZeusClient, testing::Bool(),
                         [](const auto& over) { return over.param ? "Tcp" : "UnixSocket"; });

TEST_P(ZeusClient, OneConnectionCarriesAllItsCalls) {
  http::RawClient client(endpoint());
  const auto answers = [&](std::size_t number) {
    return [number](const std::string& text) { return count(text, "HTTP/1.1 200 ") >= number && text.ends_with("\n"); };
  };
  client.send(httpx("GET /discover"));
  std::string got = client.read([](const std::string& text) { return text.contains("\"version\""); });
  EXPECT_EQ(count(got, "HTTP/1.1 200 "), 1u) << got;
  // A write has no body, and its comma is percent-encoded.
  for (int call = 0; call < 2; ++call)
    client.send(
        httpx("POST /gpu/set_power_limit?gpu_ids=0%2C1&power_limit_mw=200000&block=true", "Content-Length: 0\r\n"));
  got = client.read(answers(2));
  EXPECT_EQ(count(got, "HTTP/1.1 200 "), 2u) << got;
  EXPECT_EQ(count(got, "Content-Length: 0\r\n"), 2u) << got;
  EXPECT_EQ(bench.gpus[0].written().size(), 2u);
  EXPECT_EQ(bench.gpus[1].written().size(), 2u);
  EXPECT_FALSE(client.hung_up());
}

TEST_P(ZeusClient, AStreamIsChunkedAndItsCommaIsPlain) {
  http::RawClient client(endpoint());
  client.send(httpx("GET /gpu/stream_power?gpu_ids=0,1"));
  const std::string got = client.read([](const std::string& text) { return count(text, "data: {") >= 2; });
  EXPECT_TRUE(got.contains("Transfer-Encoding: chunked\r\n")) << got;
  EXPECT_TRUE(got.contains("Content-Type: text/event-stream\r\n")) << got;
  EXPECT_TRUE(got.contains("\"gpu_id\":0") && got.contains("\"gpu_id\":1")) << got;
}

// stop() of the client blocks until the next bytes come, so a silent stream sends some each second.
TEST_P(ZeusClient, ASilentStreamSendsComments) {
  http::RawClient client(endpoint());
  client.send(httpx("GET /gpu/stream_power?gpu_ids=0"));
  const std::string got = client.read([](const std::string& text) { return text.contains("\n:"); });
  EXPECT_EQ(count(got, "data: {"), 1u) << got;
  EXPECT_TRUE(got.contains("\n:")) << got;
}

}  // namespace
}  // namespace headgate::api
