#include "http/server.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "http/test_server.hpp"

namespace headgate::http {
namespace {

Router echo() {
  Router router;
  router.add("GET", "/echo/{word}", [](const Request& request) {
    Response response;
    response.content_type = "text/plain";
    response.body = *request.parameter("word") + " uid=" + std::to_string(request.peer.uid) +
                    " pid=" + std::to_string(request.peer.pid) + (request.peer.is_unix ? " unix" : " tcp") +
                    (request.peer.in_group(::getgid()) ? " mine" : "");
    return response;
  });
  router.add("POST", "/size", [](const Request& request) {
    Response response;
    response.body = std::to_string(request.body.size());
    return response;
  });
  router.add("GET", "/throws", [](const Request&) -> Response { throw std::runtime_error("out of paper"); });
  router.add_later("GET", "/forgets", [](const Request&, const Reply&) {});
  return router;
}

TEST(Server, TellsAHandlerTheCaller) {
  TestServer server(echo());
  const auto over_unix = exchange(server.unix_endpoint(), {.target = "/echo/a%20b"}, 20s);
  ASSERT_TRUE(over_unix) << over_unix.error().message;
  EXPECT_EQ(over_unix->status, 200);
  EXPECT_EQ(over_unix->body,
            "a b uid=" + std::to_string(::getuid()) + " pid=" + std::to_string(::getpid()) + " unix mine");
  EXPECT_EQ(*find(over_unix->headers, "content-type"), "text/plain");
  const auto over_tcp = exchange(server.tcp_endpoint(), {.target = "/echo/x"}, 20s);
  ASSERT_TRUE(over_tcp) << over_tcp.error().message;
  EXPECT_EQ(over_tcp->body, "x uid=4294967295 pid=0 tcp") << "the kernel reports no user for a TCP client";
}

TEST(Server, AnswersEachMistakeInJson) {
  TestServer server(echo());
  const auto ask = [&](const char* method, const char* target) {
    const auto response = exchange(server.unix_endpoint(), {.method = method, .target = target}, 20s);
    return response ? std::to_string(response->status) + " " + response->body : response.error().message;
  };
  EXPECT_EQ(
      ask("GET", "/nothing"),
      "404 {\"code\":\"not_found\",\"message\":\"there is nothing at /nothing\",\"hint\":\"see /v1/openapi.json\"}\n");
  EXPECT_TRUE(ask("PUT", "/size").starts_with("405 {\"code\":\"method_not_allowed\"")) << ask("PUT", "/size");
  EXPECT_TRUE(ask("GET", "/echo/%zz").starts_with("400 {\"code\":\"bad_request\"")) << ask("GET", "/echo/%zz");
  EXPECT_EQ(ask("GET", "/throws"),
            "500 {\"code\":\"failed\",\"message\":\"the handler of this request failed: out of paper\","
            "\"hint\":\"this is a defect of the server\"}\n");
  EXPECT_TRUE(ask("GET", "/forgets").starts_with("500 {\"code\":\"failed\"")) << ask("GET", "/forgets");
}

TEST(Server, AnswersManyAndPipelinedRequestsOnOneConnection) {
  TestServer server(echo());
  RawClient client(server.unix_endpoint());
  client.send("GET /echo/1 HTTP/1.1\r\nHost: h\r\n\r\nGET /echo/2 HTTP/1.1\r\nHost: h\r\n\r\n");
  client.send("GET /forgets HTTP/1.1\r\nHost: h\r\n\r\n");
  client.send("HEAD /echo/3 HTTP/1.1\r\nHost: h\r\n\r\nGET /echo/4 HTTP/1.0\r\n\r\n");
  const std::string all = client.read();
  EXPECT_TRUE(client.hung_up()) << "an HTTP/1.0 client waits for the end of the connection";
  EXPECT_EQ(all.find("3 uid"), std::string::npos) << "the answer to HEAD had a body";
  std::size_t at = 0;
  for (const char* part : {"\r\n\r\n1 uid", "\r\n\r\n2 uid", "500 ", "200 OK", "\r\n\r\n4 uid"}) {
    at = all.find(part, at);
    ASSERT_NE(at, std::string::npos) << part << " in " << all;
  }
}

TEST(Server, ChecksTheHostOfAWholeAddressLikeTheHeader) {
  TestServer server(echo());
  RawClient client(server.tcp_endpoint());
  client.send(
      "GET http://localhost/echo/1 HTTP/1.1\r\nHost: elsewhere\r\n\r\n"
      "GET http://elsewhere/echo/2 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const std::string all = client.read();
  EXPECT_TRUE(all.starts_with("HTTP/1.1 200")) << all;
  EXPECT_NE(all.find("HTTP/1.1 403"), std::string::npos) << all;
  EXPECT_NE(all.find("'elsewhere', which is no name of ours"), std::string::npos) << all;
}

TEST(Server, AsksForALargeBodyBeforeItIsSent) {
  TestServer server(echo());
  RawClient client(server.unix_endpoint());
  client.send("POST /size HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n");
  const std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
  EXPECT_EQ(client.read([&](const std::string& all) { return all.size() >= go_on.size(); }), go_on);
  ASSERT_TRUE(client.send(std::string(1'000'000, 'x')));
  client.half_close();
  EXPECT_TRUE(client.read().ends_with("1000000"));
}

TEST(Server, SendsALargeAnswerWhole) {
  Router router;
  router.add("GET", "/large", [](const Request&) {
    Response response;
    response.body.assign(20 << 20, 'x');
    return response;
  });
  TestServer server(std::move(router));
  const auto response = exchange(server.tcp_endpoint(), {.target = "/large"}, 60s);
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->body.size(), 20U << 20);
}

TEST(Server, KeepsAnsweringWhileAHandlerBlocks) {
  std::promise<void> gate;
  const auto opened = gate.get_future().share();
  Router router = echo();
  router.add(
      "GET", "/slow",
      [opened](const Request&) {
        opened.wait();
        return Response{};
      },
      Runs::on_pool);
  TestServer server(std::move(router));
  auto slow =
      std::async(std::launch::async, [&] { return exchange(server.unix_endpoint(), {.target = "/slow"}, 60s); });
  const auto fast = exchange(server.unix_endpoint(), {.target = "/echo/x"}, 20s);
  EXPECT_TRUE(fast) << "one blocked handler held up everybody";
  gate.set_value();
  EXPECT_EQ(slow.get()->status, 200);
}

// As with `nc -N` and shutdown(2): the request is complete, and the client still reads the response.
TEST(Server, AnswersAClientThatHasClosedItsSide) {
  std::promise<void> gate;
  Router router;
  router.add(
      "GET", "/slow",
      [opened = gate.get_future().share()](const Request&) {
        opened.wait();
        return Response{};
      },
      Runs::on_pool);
  TestServer server(std::move(router));
  for (const Endpoint& endpoint : {server.unix_endpoint(), server.tcp_endpoint()}) {
    RawClient client(endpoint);
    client.send("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.half_close();
    if (endpoint.path == server.unix_endpoint().path) {
      std::this_thread::sleep_for(50ms);  // lets the server see it; if too short, the test only misses a defect
      gate.set_value();
    }
    EXPECT_TRUE(client.read().starts_with("HTTP/1.1 200")) << endpoint.text();
  }
}

TEST(Server, LetsAHandlerAnswerLaterAndSeesTheClientLeave) {
  std::optional<Reply> kept;
  std::atomic<bool> gone = false;
  std::atomic<bool> asked = false;
  Router router;
  router.add_later("GET", "/wait", [&](const Request&, const Reply& reply) {
    reply.on_gone([&] { gone = true; });
    kept = reply;
    asked = true;
  });
  ServerLimits limits = patient();
  limits.head = 1s;  // waiting for the handler must not count against the client
  TestServer server(std::move(router), limits);
  {
    auto waiting =
        std::async(std::launch::async, [&] { return exchange(server.unix_endpoint(), {.target = "/wait"}, 60s); });
    ASSERT_TRUE(eventually([&] { return asked.load(); }));
    std::this_thread::sleep_for(1300ms);  // past the limit that must not apply
    Response response;
    response.body = "at last";
    std::thread([&] { (*kept)(response); }).join();
    const auto answer = waiting.get();
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->body, "at last");
    EXPECT_FALSE(gone);
  }
  asked = false;
  RawClient client(server.unix_endpoint());
  client.send("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return asked.load(); }));
  client.close();
  EXPECT_TRUE(eventually([&] { return gone.load(); })) << "the handler goes on working after the client left";
  EXPECT_TRUE(eventually([&] { return server.connections() == 0; }));
  server.thread().on_loop([&] { kept.reset(); });
}

TEST(Server, Answers503IfAHandlerIsTooLate) {
  std::optional<Reply> kept;
  Router router;
  router.add_later("GET", "/wait", [&](const Request&, const Reply& reply) { kept = reply; });
  ServerLimits limits = patient();
  limits.answer = 50ms;
  TestServer server(std::move(router), limits);
  const auto response = exchange(server.unix_endpoint(), {.target = "/wait"}, 20s);
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 503);
  server.thread().on_loop([&] { kept.reset(); });
}

Router with_events(const std::shared_ptr<EventStream>& stream) {
  Router router;
  router.add("GET", "/events", [stream](const Request&) {
    Response response;
    response.stream = stream;
    return response;
  });
  return router;
}

TEST(Server, StreamsEventsAndHeartbeatsToTheEnd) {
  const auto stream = std::make_shared<EventStream>();
  std::atomic<bool> closed = false;
  stream->on_close([&] { closed = true; });
  ServerLimits limits = patient();
  limits.heartbeat = 20ms;
  TestServer server(with_events(stream), limits);
  RawClient client(server.unix_endpoint());
  client.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const std::string beats =
      client.read([](const std::string& all) { return all.contains("3\r\n:\n\n\r\n3\r\n:\n\n\r\n"); });
  EXPECT_TRUE(beats.contains("text/event-stream")) << beats;
  EXPECT_TRUE(stream->push({"a", "1", ""}));
  client.read([](const std::string& all) { return all.contains("event: a\ndata: 1\n\n"); });
  EXPECT_TRUE(stream->push({"b", "2", ""}));
  stream->finish();
  EXPECT_FALSE(stream->push({"c", "3", ""}));
  const std::string rest = client.read([](const std::string& all) { return all.ends_with("0\r\n\r\n"); });
  EXPECT_TRUE(rest.contains("event: b\ndata: 2\n\n")) << rest;
  EXPECT_TRUE(eventually([&] { return closed.load(); }));
}

TEST(Server, AsksASourceOnlyForWhatItsClientHasRead) {
  const auto stream = std::make_shared<EventStream>();
  const std::string big(64 << 10, 'x');
  constexpr int kAll = 200;
  std::atomic<int> asked = 0;
  std::atomic<bool> more = false;
  stream->feed_from([&]() -> std::vector<Event> {
    if (asked < kAll) return {{"a", big, std::to_string(++asked)}};
    if (asked++ == kAll) return {{"all", "1", ""}};
    if (more.exchange(false)) return {{"b", "2", ""}};
    return {};
  });
  TestServer server(with_events(stream));
  RawClient client(server.unix_endpoint());
  client.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(eventually([&] { return asked > 1; }));
  EXPECT_LT(asked, kAll) << "12 MiB lie somewhere for a client that has read nothing";
  client.read([](const std::string& text) {
    return std::string_view(text).substr(text.size() - std::min<std::size_t>(text.size(), 200)).contains("event: all");
  });
  more = true;
  stream->wake();
  client.read([](const std::string& text) { return text.contains("event: b\ndata: 2\n\n"); });
  stream->finish();
  const std::string rest = client.read([](const std::string& text) { return text.ends_with("0\r\n\r\n"); });
  EXPECT_TRUE(rest.ends_with("0\r\n\r\n")) << rest.size();
}

TEST(Server, TellsAStreamThatItsClientHasLeft) {
  const auto stream = std::make_shared<EventStream>();
  ServerLimits limits = patient();
  limits.heartbeat = 60s;
  TestServer server(with_events(stream), limits);
  RawClient client(server.unix_endpoint());
  client.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  client.read([](const std::string& all) { return all.contains("\r\n\r\n"); });
  EXPECT_TRUE(stream->open());
  client.half_close();
  EXPECT_TRUE(eventually([&] { return !stream->open(); })) << "noticed only at the next write";
}

TEST(Server, SetsModeAndGroupAndReplacesOnlyADeadSocket) {
  TestServer server(echo());
  const std::string path = server.folder() + "/other";
  const auto listen = [&](const UnixListener& listener) {
    return server.thread().on_loop([&] { return server.server().listen(listener); });
  };
  {
    const UniqueFd dead(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    path.copy(name.sun_path, sizeof name.sun_path - 1);
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
  }
  ASSERT_TRUE(listen({.path = path, .mode = 0620, .group = ::getgid()}));
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0620U);
  EXPECT_EQ(status.st_gid, ::getgid());
  EXPECT_EQ(listen({.path = path}).error().message, "another server listens on " + path);
  std::ofstream(server.folder() + "/file") << "precious";
  EXPECT_EQ(listen({.path = server.folder() + "/file"}).error().message,
            server.folder() + "/file exists and is no socket");
  EXPECT_EQ(listen({.path = "/" + std::string(200, 'x')}).error().hint, "accepted: 1 to 107 bytes");
  const auto tcp = server.thread().on_loop([&] { return server.server().listen("localhost", 0); });
  EXPECT_EQ(tcp.error().message, "'localhost' is no address to listen on");
  server.thread().on_loop([&] { server.server().stop(); });
  EXPECT_NE(::stat(path.c_str(), &status), 0) << "the socket file stayed behind";
}

TEST(Server, ListensAgainAfterItsSocketWasRemoved) {
  TestServer server(echo());
  const std::string path = server.unix_endpoint().path;
  const auto listen_anew = [&] { return server.thread().on_loop([&] { return server.server().listen_anew(); }); };
  EXPECT_EQ(listen_anew().value_or(9), 0u);
  const auto answers = [&] { return exchange(server.unix_endpoint(), {.target = "/echo/x"}, 20s).has_value(); };
  ::unlink(path.c_str());
  EXPECT_FALSE(answers());
  EXPECT_EQ(listen_anew().value_or(9), 1u);
  EXPECT_EQ(listen_anew().value_or(9), 0u);
  EXPECT_TRUE(answers());
  ::unlink(path.c_str());
  std::ofstream(path) << "precious";
  EXPECT_EQ(listen_anew().value_or(9), 0u);
  ::unlink(path.c_str());
  std::filesystem::remove_all(server.folder());
  EXPECT_FALSE(listen_anew());
  std::filesystem::create_directory(server.folder());
  EXPECT_EQ(listen_anew().value_or(9), 1u) << "tried again until it can";
}

TEST(Server, RemovesNoSocketOfItsSuccessor) {
  TestServer server(echo());
  const std::string path = server.unix_endpoint().path;
  ::unlink(path.c_str());
  server.thread().on_loop([&] {
    Server successor(server.thread().loop(), echo());
    ASSERT_TRUE(successor.listen(UnixListener{.path = path}));
    server.server().stop();
    struct stat status{};
    EXPECT_EQ(::stat(path.c_str(), &status), 0);
  });
}

}  // namespace
}  // namespace headgate::http
