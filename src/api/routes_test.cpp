#include "api/routes.hpp"

#include <gtest/gtest.h>

#include "http/message.hpp"

namespace headgate::api {
namespace {

const std::vector<Route> kTable = {{.id = "getOne", .method = "GET", .path = "/v1/one"},
                                   {.id = "endOne", .method = "DELETE", .path = "/v1/one"}};

http::Handler answers(const std::string& body) {
  return [body](const http::Request&) { return http::json_reply(body); };
}

TEST(Routes, EachRowIsAnswered) {
  http::Router router;
  router.add("DELETE", "/v1/one", answers("ended"));
  EXPECT_TRUE(add_routes(router, kTable, {{"getOne", {answers("one")}}})) << "another part answers endOne";
  http::Request request;
  request.method = "GET";
  request.segments = {"v1", "one"};
  EXPECT_TRUE(std::holds_alternative<const http::Router::Route*>(router.find(request)));
}

TEST(Routes, RowWithoutHandlerIsAnError) {
  http::Router router;
  const auto added = add_routes(router, kTable, {{"getOne", {answers("one")}}});
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().message, "the route endOne: nothing answers DELETE /v1/one");
}

TEST(Routes, HandlerWithoutRowIsAnError) {
  http::Router router;
  const auto added = add_routes(
      router, kTable, {{"getOne", {answers("one")}}, {"endOne", {answers("ended")}}, {"getTwo", {answers("two")}}});
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().message, "the handler getTwo: the table has no such route");
}

}  // namespace
}  // namespace headgate::api
