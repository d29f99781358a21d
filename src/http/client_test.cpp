#include "http/client.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "http/async_client.hpp"
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

// A listener that accepts nobody: connections wait in its backlog for good.
class Mute {
 public:
  Mute() : server_(Router()) { fd_ = std::move(*listen_unix(UnixListener{.path = server_.folder() + "/mute"})); }
  [[nodiscard]] Endpoint endpoint() const { return {.path = server_.folder() + "/mute"}; }

 private:
  TestServer server_;
  UniqueFd fd_;
};

TEST(BlockingClient, exchanges_over_both_kinds_of_socket) {
  TestServer server(events());
  for (const auto& endpoint : {server.unix_endpoint(), server.tcp_endpoint()}) {
    const std::string body(500'000, 'x');
    const auto response = exchange(endpoint, {.method = "POST", .target = "/echo", .body = body}, 20s);
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(response->status, 201);
    EXPECT_EQ(response->body, body);
  }
}

TEST(BlockingClient, says_why_there_is_no_answer) {
  const auto nobody = exchange({.path = "/nonexistent/s"}, {}, 20s);
  EXPECT_EQ(nobody.error(), (Error{ErrorCode::unreachable, "the server at /nonexistent/s: No such file or directory",
                                   "is it running?"}));
  const Mute mute;
  const auto late = exchange(mute.endpoint(), {}, 30ms);
  EXPECT_EQ(late.error().message, "the server at " + mute.endpoint().path + ": no answer in time");
}

TEST(BlockingClient, reads_a_stream_to_its_end) {
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

TEST(BlockingClient, tells_silence_and_a_refusal_from_the_end) {
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

TEST(AsyncClient, exchanges_later_and_never_inside_the_call) {
  TestServer server(events());
  LoopThread ours;
  for (const Endpoint& endpoint : {server.unix_endpoint(), server.tcp_endpoint(), Endpoint{.path = "/nonexistent/s"}}) {
    std::promise<Result<IncomingResponse>> answer;
    std::unique_ptr<Call> call;
    bool inside = false;
    ours.on_loop([&] {
      inside = true;
      call = exchange(ours.loop(), endpoint, {.method = "POST", .target = "/echo", .body = "hello"}, 20s,
                      [&](Result<IncomingResponse> result) {
                        EXPECT_FALSE(inside);
                        call.reset();
                        answer.set_value(std::move(result));
                      });
      inside = false;
      EXPECT_NE(call, nullptr);
    });
    const auto result = answer.get_future().get();
    if (endpoint.path == "/nonexistent/s") {
      EXPECT_EQ(result.error().code, ErrorCode::unreachable);
    } else {
      ASSERT_TRUE(result) << result.error().message;
      EXPECT_EQ(result->body, "hello");
    }
  }
}

TEST(AsyncClient, is_not_held_up_by_a_server_that_says_nothing) {
  const Mute mute;
  LoopThread ours;
  std::promise<Result<IncomingResponse>> answer;
  const auto call = ours.on_loop([&] {
    return exchange(ours.loop(), mute.endpoint(), {}, 30ms,
                    [&](Result<IncomingResponse> result) { answer.set_value(std::move(result)); });
  });
  EXPECT_EQ(answer.get_future().get().error().message, "the server at " + mute.endpoint().path + ": no answer in time");
  auto held = ours.on_loop([&] {
    return exchange(ours.loop(), mute.endpoint(), {}, 20s,
                    [](const Result<IncomingResponse>&) { ADD_FAILURE() << "a call that was given up came back"; });
  });
  ours.on_loop([&] { held.reset(); });
  ours.on_loop([] {});
}

TEST(AsyncClient, reads_a_stream_to_its_end_and_can_leave_in_the_middle) {
  TestServer server(events());
  LoopThread ours;
  std::promise<Result<void>> ended;
  std::vector<std::string> seen;
  auto call = ours.on_loop([&] {
    return subscribe(ours.loop(), server.unix_endpoint(), {.target = "/three"}, 20s, 20s,
                     {.opened = [&] { seen.push_back("opened"); },
                      .event = [&](const Event& event) { seen.push_back(event.data); },
                      .ended = [&](const Result<void>& result) { ended.set_value(result); }});
  });
  EXPECT_TRUE(ended.get_future().get());
  EXPECT_EQ(seen, (std::vector<std::string>{"opened", "1", "2", "3"}));

  std::promise<void> left;
  ours.on_loop([&] {
    call = subscribe(ours.loop(), server.unix_endpoint(), {.target = "/three"}, 20s, 20s,
                     {.opened = {},
                      .event =
                          [&](const Event& event) {
                            EXPECT_EQ(event.data, "1") << "an event after the call was given up";
                            call.reset();
                            left.set_value();
                          },
                      .ended = [](const Result<void>&) { ADD_FAILURE() << "an end after the call was given up"; }});
  });
  left.get_future().get();
  EXPECT_TRUE(eventually([&] { return server.connections() == 0; }));
}

TEST(AsyncClient, tells_silence_and_a_refusal_from_the_end) {
  ServerLimits limits;
  limits.heartbeat = 60s;
  TestServer server(events(), limits);
  LoopThread ours;
  const auto ending = [&](const std::string& target) {
    std::promise<Result<void>> ended;
    auto call = ours.on_loop([&] {
      return subscribe(ours.loop(), server.unix_endpoint(), {.target = target}, 20s, 50ms,
                       {.opened = {},
                        .event = [](const Event&) {},
                        .ended = [&](const Result<void>& result) { ended.set_value(result); }});
    });
    const auto result = ended.get_future().get();
    ours.on_loop([&] { call.reset(); });
    return result;
  };
  EXPECT_EQ(ending("/endless").error().code, ErrorCode::unreachable);
  EXPECT_EQ(ending("/denied").error(), (Error{ErrorCode::denied, "not yours", "ask alice"}));
}

}  // namespace
}  // namespace headgate::http
