#include "http/codec.hpp"

#include <gtest/gtest.h>

namespace headgate::http {
namespace {

std::expected<Request, Refusal> parse(std::string_view text, CodecLimits limits = {}) {
  RequestParser parser(limits);
  if (const auto fed = parser.feed(text); !fed) return std::unexpected(fed.error());
  if (!parser.done()) return std::unexpected(Refusal{0, "not done"});
  return parser.take();
}

TEST(RequestParser, GivesAHandlerTheWholeRequest) {
  const auto request = parse(
      "POST /v1/shares/a%2Fb%20c?wait=30s&name=x+y%26z&flag HTTP/1.1\r\nHost: h\r\nX-Thing:  v \r\n"
      "Content-Length: 5\r\n\r\nhello");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->method, "POST");
  EXPECT_EQ(request->path, "/v1/shares/a%2Fb%20c");
  EXPECT_EQ(request->segments, (std::vector<std::string>{"v1", "shares", "a/b c"}));
  EXPECT_EQ(request->query, (Fields{{"wait", "30s"}, {"name", "x y&z"}, {"flag", ""}}));
  EXPECT_EQ(*find(request->headers, "x-thing"), "v");
  EXPECT_EQ(request->body, "hello");
  EXPECT_TRUE(request->keep_alive);
}

TEST(RequestParser, JoinsChunksAndKeepsTheNextRequest) {
  RequestParser parser;
  ASSERT_TRUE(
      parser.feed("PUT /a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
                  "chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\nGET /b HT"));
  ASSERT_TRUE(parser.done());
  EXPECT_EQ(parser.take()->body, "abcde");
  EXPECT_FALSE(parser.done());
  EXPECT_TRUE(parser.begun());
  ASSERT_TRUE(parser.feed("TP/1.0\r\n\r\n"));
  ASSERT_TRUE(parser.done());
  const auto next = parser.take();
  EXPECT_EQ(next->path, "/b");
  EXPECT_TRUE(next->http_1_0);
  EXPECT_FALSE(next->keep_alive);
}

TEST(RequestParser, AcceptsAnySplitOfTheBytes) {
  const std::string_view text =
      "POST /x?y=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    RequestParser parser;
    ASSERT_TRUE(parser.feed(text.substr(0, cut)));
    EXPECT_EQ(parser.expects_continue(), cut >= text.size() - 3);
    ASSERT_TRUE(parser.feed(text.substr(cut)));
    ASSERT_TRUE(parser.done()) << cut;
    EXPECT_EQ(parser.take()->body, "abc");
  }
}

TEST(RequestParser, PrefersTheHostOfAWholeAddressOverTheHeader) {
  for (const auto& [target, host, path] : {std::tuple{"http://lab-3:9471/v1/node?x=1", "lab-3:9471", "/v1/node"},
                                           {"HTTP://[::1]", "[::1]", "/"},
                                           {"http://lab-3?x=1", "lab-3", "/"},
                                           {"/v1/node", "sent", "/v1/node"}}) {
    RequestParser parser;
    ASSERT_TRUE(parser.feed("GET " + std::string(target) + " HTTP/1.1\r\nHost: sent\r\n\r\n"));
    const auto request = parser.take();
    ASSERT_TRUE(request) << target;
    EXPECT_EQ(request->path, path);
    EXPECT_EQ(request->headers, (Fields{{"Host", host}}));
  }
}

TEST(RequestParser, EnforcesItsLimits) {
  const auto status = [](const std::string& text) {
    RequestParser parser({.head_bytes = 100, .body_bytes = 10});
    const auto fed = parser.feed(text);
    return fed ? 200 : fed.error().status;
  };
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: localhost\r\nA: " + std::string(40, 'h') + "\r\n\r\n"), 200);
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: localhost\r\nA: " + std::string(100, 'h') + "\r\n\r\n"), 431);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n0123456789"), 200);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 11\r\n\r\n"), 413);
}

struct Bad {
  std::string text;
  int status;
  std::string message;
};

TEST(RequestParser, RefusesInvalidRequestsWithStatusAndReason) {
  const std::string long_head(20'000, 'h');
  const Bad table[] = {
      {"\x16\x03\x01 tls\r\n\r\n", 400, "this is no HTTP/1.1 request: bad method"},
      {"GET /\r\n\r\n", 400, "this is no HTTP/1.1 request: bad target"},
      {"GET / HTTP/2.0\r\n\r\n", 400, "this is no HTTP/1.1 request: bad version"},
      {"GET / HTTP/1.1\nHost: h\n\n", 400, "this is no HTTP/1.1 request: bad version"},
      {"GET / HTTP/1.1\r\n\r\n", 400, "an HTTP/1.1 request needs the header Host"},
      {"GET http://h/ HTTP/1.1\r\nA: b\r\n\r\n", 400, "an HTTP/1.1 request needs the header Host"},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400, "the header Host stands more than once in this request"},
      {"GET / HTTP/1.0\r\nHost: a\r\nhost: b\r\n\r\n", 400, "the header Host stands more than once in this request"},
      {"GET / HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n", 400, "this is no HTTP/1.1 request: bad field"},
      {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400,
       "this is no HTTP/1.1 request: multiple Content-Length"},
      {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400,
       "this is no HTTP/1.1 request: bad Content-Length"},
      {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400,
       "this is no HTTP/1.1 request: bad Transfer-Encoding"},
      {"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n", 501,
       "the only transfer coding taken is 'chunked'"},
      {"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400,
       "this is no HTTP/1.1 request: bad chunk"},
      {"GET / HTTP/1.1\r\nHost: localhost\r\nA: " + long_head + "\r\n\r\n", 431,
       "the request's head is larger than 16384 bytes"},
      {"GET /" + long_head, 431, "the request's head is larger than 16384 bytes"},
      {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048577\r\n\r\n", 413,
       "the request's body is larger than 1048576 bytes"},
      {"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n100001\r\n", 413,
       "the request's body is larger than 1048576 bytes"},
      {"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;" + long_head, 431,
       "what stands before a chunk or behind the last one is longer than 16384 bytes"},
      {"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: " + long_head, 431,
       "what stands before a chunk or behind the last one is longer than 16384 bytes"},
      {"GET http:///x HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "the target names no host"},
      {"GET ftp://other/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 400,
       "the target must begin with '/', or with http:// and a host"},
      {"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 400,
       "the target must begin with '/', or with http:// and a host"},
      {"GET /%4 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400,
       "the target has '%' without two hexadecimal digits after it"},
      {"GET /?a=%xy HTTP/1.1\r\nHost: localhost\r\n\r\n", 400,
       "the target has '%' without two hexadecimal digits after it"},
      {"GET /a%00b HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "the target has a control character"},
      {"GET /?a=%1b%5b2J HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "the target has a control character"},
  };
  for (const auto& [text, status, message] : table) {
    const auto request = parse(text);
    ASSERT_FALSE(request) << text.substr(0, 60);
    EXPECT_EQ(request.error(), (Refusal{status, message})) << text.substr(0, 60);
  }
}

TEST(Escape, SurvivesARoundTripThroughATarget) {
  std::string all;
  for (int c = 0x20; c < 0x100; ++c) {
    if (c != 0x7f) all += static_cast<char>(c);
  }
  const auto target = parse_target("/" + escape(all) + "?" + escape(all) + "=" + escape(all));
  ASSERT_TRUE(target);
  EXPECT_EQ(target->segments, std::vector{all});
  EXPECT_EQ(target->query, (Fields{{all, all}}));
}

TEST(ResponseHead, AllowsNoSecondHeaderInAValue) {
  Response response;
  response.headers = {{"X-Name", "a\r\nSet-Cookie: b\n"}};
  const auto head = response_head(response, {});
  EXPECT_EQ(head.find("\r\nSet-Cookie"), std::string::npos) << head;
  EXPECT_NE(head.find("X-Name: a  Set-Cookie: b \r\n"), std::string::npos) << head;
}

TEST(ResponseParser, ReadsSizedChunkedAndEndlessBodies) {
  Response response;
  response.status = 409;
  response.body = "hello";
  const std::string sized = response_head(response, {}) + response.body;
  const std::string chunked = response_head(response, {Framing::Body::chunked, true}) + chunk("hel") + chunk("lo");
  const std::string endless = response_head(response, {Framing::Body::until_close, false}) + "hello";
  for (const auto& text : {sized, chunked + std::string(kLastChunk), endless}) {
    ResponseParser parser;
    for (const char c : text) ASSERT_TRUE(parser.feed({&c, 1}));
    ASSERT_TRUE(parser.end());
    ASSERT_TRUE(parser.done());
    const auto read = parser.take();
    EXPECT_EQ(read.status, 409);
    EXPECT_EQ(read.body, "hello");
    EXPECT_EQ(*find(read.headers, "content-type"), "application/json");
  }
  ResponseParser cut;
  ASSERT_TRUE(cut.feed(chunked));
  EXPECT_EQ(cut.take_body_part(), "hello");
  EXPECT_FALSE(cut.end()) << "a body that was cut off passed for a whole one";
}

TEST(RequestText, IsParsedBackToTheSameRequest) {
  const OutgoingRequest sent{.method = "POST", .target = "/a?b=c", .headers = {{"X", "y"}}, .body = "{}"};
  const auto request = parse(request_text(sent, "localhost", false));
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->method, "POST");
  EXPECT_EQ(*request->query_value("b"), "c");
  EXPECT_EQ(request->body, "{}");
  EXPECT_FALSE(request->keep_alive);
  EXPECT_EQ(*find(request->headers, "host"), "localhost");
}

TEST(ErrorResponse, IsParsedBackToTheSameError) {
  for (const auto code :
       {ErrorCode::failed, ErrorCode::usage, ErrorCode::unreachable, ErrorCode::no_capacity, ErrorCode::denied,
        ErrorCode::unsupported, ErrorCode::not_found, ErrorCode::conflict, ErrorCode::busy}) {
    const Error error{code, "what \"was\" wrong", "what to do"};
    const auto response = error_response(error);
    EXPECT_EQ(error_of(response.status, response.body), error);
  }
  EXPECT_EQ(error_of(409, R"({"code":"stale","message":"late"})"), (Error{ErrorCode::usage, "late", ""}));
  EXPECT_EQ(error_of(503, "").code, ErrorCode::unreachable);
  EXPECT_EQ(error_of(404, "<html>"), (Error{ErrorCode::not_found, "the server answered 404", ""}));
  EXPECT_EQ(error_response(500, "failed", "\xff", "").body,
            "{\"code\":\"failed\",\"message\":\"\xef\xbf\xbd\",\"hint\":\"\"}\n");
}

}  // namespace
}  // namespace headgate::http
