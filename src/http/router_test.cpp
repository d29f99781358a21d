#include "http/router.hpp"

#include <gtest/gtest.h>

#include "http/codec.hpp"

namespace headgate::http {
namespace {

Response named(std::string name) {
  Response response;
  response.body = std::move(name);
  return response;
}

class RouterTest : public testing::Test {
 protected:
  RouterTest() {
    router_.add("GET", "/", [](const Request&) { return named("root"); });
    router_.add("GET", "/v1/shares/new", [](const Request&) { return named("new"); });
    router_.add("GET", "/v1/shares/{name}", [](const Request& r) { return named("get " + *r.parameter("name")); });
    router_.add("DELETE", "/v1/shares/{name}", [](const Request& r) { return named("rm " + *r.parameter("name")); });
    router_.add("GET", "/v1/{a}/x/{b}", [](const Request& r) { return named(*r.parameter("a") + *r.parameter("b")); });
  }
  Response ask(const std::string& method, const std::string& path) {
    Request request;
    request.method = method;
    request.path = path;
    const auto target = parse_target(path);
    request.segments = target->segments;
    request.query = target->query;
    const auto found = router_.find(request);
    if (const auto* response = std::get_if<Response>(&found)) return *response;
    const auto slot = std::make_shared<Reply::Slot>(nullptr);
    std::get<const Router::Route*>(found)->handler(request, Reply(slot));
    return slot->take().value();
  }
  Router router_;
};

TEST_F(RouterTest, FindsTheHandlerAndTheMatchedParts) {
  EXPECT_EQ(ask("GET", "/").body, "root");
  EXPECT_EQ(ask("GET", "/v1/shares/new").body, "new");
  EXPECT_EQ(ask("GET", "/v1/shares/a%2Fb").body, "get a/b");
  EXPECT_EQ(ask("HEAD", "/v1/shares/a").body, "get a");
  EXPECT_EQ(ask("DELETE", "/v1/shares/a").body, "rm a");
  EXPECT_EQ(ask("GET", "/v1/p/x/q").body, "pq");
}

TEST_F(RouterTest, HeadRequestsTakeNothing) {
  router_.add_later("GET", "/tasks", [](const Request&, Reply) {});
  EXPECT_EQ(ask("HEAD", "/tasks").status, 405);
}

TEST_F(RouterTest, ListsAcceptedMethodsForAWrongOne) {
  const auto response = ask("PUT", "/v1/shares/a");
  EXPECT_EQ(response.status, 405);
  EXPECT_EQ(*find(response.headers, "allow"), "GET, DELETE");
  EXPECT_EQ(response.body,
            "{\"code\":\"method_not_allowed\",\"message\":\"PUT is not possible at /v1/shares/a\","
            "\"hint\":\"accepted: GET, DELETE\"}\n");
}

TEST_F(RouterTest, RefusesAnUnknownQueryOnlyForRoutesThatCheckIt) {
  EXPECT_EQ(ask("GET", "/v1/shares/a?what=1").body, "get a");
  EXPECT_TRUE(router_.accept_only("GET", "/v1/shares/{name}", std::vector<std::string>{"after", "wait"}));
  EXPECT_FALSE(router_.accept_only("PUT", "/v1/shares/{name}", std::nullopt));
  EXPECT_EQ(ask("GET", "/v1/shares/a?wait=1s&after=2").body, "get a");
  const auto refused = ask("GET", "/v1/shares/a?atfer=2");
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("unknown query parameter 'atfer' for /v1/shares/a"), std::string::npos) << refused.body;
  EXPECT_NE(refused.body.find("accepted: after, wait"), std::string::npos) << refused.body;
  const auto twice = ask("GET", "/v1/shares/a?wait=1s&after=2&wait=2s");
  EXPECT_EQ(twice.status, 400);
  EXPECT_NE(twice.body.find("query parameter 'wait' is given twice"), std::string::npos) << twice.body;
  EXPECT_EQ(ask("DELETE", "/v1/shares/a?atfer=2").body, "rm a");
}

TEST_F(RouterTest, AnswersOtherPathsWithNotFound) {
  for (const char* path : {"/v1", "/v1/shares", "/v1/shares/", "/v1/shares//", "/v1/shares/a/b", "/V1/shares/a"}) {
    EXPECT_EQ(ask("GET", path).status, 404) << path;
  }
}

}  // namespace
}  // namespace headgate::http
