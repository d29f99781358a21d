#include "http/client.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "http/listen.hpp"
#include "http/test_server.hpp"

namespace headgate::http {
namespace {

Router events() {
  Router router;
  router.add("POST", "/echo", [](const Request& request) {
    Response response;
    response.status = 201;
    response.body = request.body;
    return response;
  });
  router.add("GET", "/three", [](const Request&) {
    Response response;
    response.stream = std::make_shared<EventStream>();
    for (const char* id : {"1", "2", "3"}) response.stream->push({"n", id, id});
    response.stream->finish();
    return response;
  });
  router.add("GET", "/endless", [](const Request&) {
    Response response;
    response.stream = std::make_shared<EventStream>();
    response.stream->push({"n", "first", ""});
    return response;
  });
  router.add("GET", "/denied",
             [](const Request&) { return error_response(Error{ErrorCode::denied, "not yours", "ask alice"}); });
  return router;
}

// A listener that never accepts: connections stay in its backlog.
class Mute {
 public:
  Mute() : server_(Router()) { fd_ = std::move(*listen_unix(UnixListener{.path = server_.folder() + "/mute"})); }
  [[nodiscard]] Endpoint endpoint() const { return {.path = server_.folder() + "/mute"}; }

 private:
  TestServer server_;
  UniqueFd fd_;
};

TEST(BlockingClient, ExchangesMessagesOverBothKindsOfSocket) {
  TestServer server(events());
  for (const auto& endpoint : {server.unix_endpoint(), server.tcp_endpoint()}) {
    const std::string body(500'000, 'x');
    const auto response = exchange(endpoint, {.method = "POST", .target = "/echo", .body = body}, 20s);
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(response->status, 201);
    EXPECT_EQ(response->body, body);
  }
}

TEST(BlockingClient, ReportsWhyThereIsNoAnswer) {
  const auto nobody = exchange({.path = "/nonexistent/s"}, {}, 20s);
  EXPECT_EQ(nobody.error(), (Error{ErrorCode::unreachable, "the server at /nonexistent/s: No such file or directory",
                                   "is it running?"}));
  const Mute mute;
  const auto late = exchange(mute.endpoint(), {}, 30ms);
  EXPECT_EQ(late.error().message, "the server at " + mute.endpoint().path + ": no answer in time");
}

TEST(BlockingClient, ReadsAStreamToItsEnd) {
  TestServer server(events());
  auto source = EventSource::open(server.unix_endpoint(), {.target = "/three"}, 20s);
  ASSERT_TRUE(source) << source.error().message;
  for (const std::string id : {"1", "2", "3"}) {
    const auto event = source->next(20s);
    ASSERT_TRUE(event && *event) << id;
    EXPECT_EQ(**event, (Event{"n", id, id}));
  }
  const auto end = source->next(20s);
  ASSERT_TRUE(end);
  EXPECT_FALSE(*end);
}

TEST(BlockingClient, DistinguishesSilenceAndRefusalFromTheEnd) {
  ServerLimits limits;
  limits.heartbeat = 60s;
  TestServer server(events(), limits);
  auto source = EventSource::open(server.tcp_endpoint(), {.target = "/endless"}, 20s);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ((**source->next(20s)).data, "first");
  EXPECT_EQ(source->next(30ms).error().code, ErrorCode::unreachable);
  EXPECT_EQ(EventSource::open(server.tcp_endpoint(), {.target = "/denied"}, 20s).error(),
            (Error{ErrorCode::denied, "not yours", "ask alice"}));
}

}  // namespace
}  // namespace headgate::http
