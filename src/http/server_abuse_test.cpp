// Clients that abuse the server are dropped or answered, and other clients are still served.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <deque>
#include <future>
#include <mutex>
#include <optional>

#include "base/test_untrusted_socket.hpp"
#include "http/test_server.hpp"

namespace headgate::http {
namespace {

constexpr char kGet[] = "GET /ok HTTP/1.1\r\nHost: h\r\n\r\n";

class ServerAbuseTest : public testing::Test {
 protected:
  explicit ServerAbuseTest(ServerLimits all = limits()) : server_(routes(), all) {}
  Router routes() {
    Router router;
    router.add("GET", "/ok", [](const Request&) { return Response{}; });
    router.add("POST", "/ok", [](const Request&) { return Response{}; });
    router.add("GET", "/large", [](const Request&) {
      Response response;
      response.body.assign(32 << 20, 'x');
      return response;
    });
    router.add("GET", "/events", [this](const Request&) {
      Response response;
      response.stream = stream_;
      return response;
    });
    return router;
  }
  static ServerLimits limits() {
    ServerLimits limits;
    limits.head = limits.body = limits.idle = limits.write = 300ms;
    limits.connections = 400;
    limits.connections_per_uid = 300;
    return limits;
  }
  void expect_alive() {
    // With these tests' short limits, one try may be too slow on a busy machine.
    EXPECT_TRUE(eventually([&] { return exchange(server_.unix_endpoint(), {.target = "/ok"}, 20s).has_value(); }));
  }
  void expect_all_gone() {
    EXPECT_TRUE(eventually([&] { return server_.connections() == 0; }))
        << server_.connections() << " are held for good";
  }

  std::shared_ptr<EventStream> stream_ = std::make_shared<EventStream>(1 << 20);
  TestServer server_;
};

TEST(ServerLater, AHandlerCanSeeThatItsClientHasLeft) {
  std::promise<Reply> asked;
  TestServer server([&](Loop&) {
    Router router;
    router.add_later("GET", "/later", [&](const Request&, Reply reply) { asked.set_value(std::move(reply)); });
    return router;
  });
  RawClient client(server.unix_endpoint());
  ASSERT_TRUE(client.send("GET /later HTTP/1.1\r\nHost: h\r\n\r\n"));
  auto handed = asked.get_future();
  ASSERT_EQ(handed.wait_for(20s), std::future_status::ready);
  const Reply reply = handed.get();
  EXPECT_TRUE(reply.waits());
  client.close();
  EXPECT_TRUE(eventually([&] { return !reply.waits(); }));
}

// Each request may take a while: an operation waits for the store's disk, a snapshot for the driver. All TCP clients
// are one user, and those of the Unix socket another.
class ServerTurns : public testing::TestWithParam<Runs> {};

TEST_P(ServerTurns, AnotherUserWaitsForOneRequestAtMost) {
  std::promise<void> held;
  std::mutex mutex;
  std::vector<std::string> order;
  std::optional<std::promise<void>> all_sent(std::in_place);
  const auto go_on = all_sent->get_future().share();
  ServerLimits one_thread = patient();
  one_thread.pool_threads = 1;
  TestServer server(
      [&](Loop&) {
        Router router;
        router.add(
            "GET", "/hold",
            [&](const Request&) {
              held.set_value();
              go_on.wait();
              return Response{};
            },
            GetParam());
        router.add(
            "GET", "/{user}",
            [&](const Request& request) {
              const std::lock_guard lock(mutex);
              order.push_back(*request.parameter("user"));
              return Response{};
            },
            GetParam());
        return router;
      },
      one_thread);
  // If this test ends early, the server must not wait for the handler.
  struct Release {
    std::optional<std::promise<void>>& all_sent;
    ~Release() { all_sent.reset(); }
  } release{all_sent};
  RawClient holder(server.unix_endpoint()), other(server.tcp_endpoint());
  std::deque<RawClient> clients;
  for (int i = 0; i < 40; ++i) clients.emplace_back(server.unix_endpoint());
  ASSERT_TRUE(eventually([&] { return server.connections() == 42; }));
  holder.send("GET /hold HTTP/1.1\r\nHost: h\r\n\r\n");
  ASSERT_EQ(held.get_future().wait_for(20s), std::future_status::ready);
  for (auto& client : clients) ASSERT_TRUE(client.send("GET /many HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
  ASSERT_TRUE(other.send("GET /other HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"));
  // The loop picks them up over several turns, and they wait for the pool.
  for (int turn = 0; turn < 100 && GetParam() == Runs::on_pool; ++turn) server.thread().on_loop([] { return 0; });
  all_sent->set_value();
  EXPECT_TRUE(other.read().starts_with("HTTP/1.1 200 "));
  for (auto& client : clients) EXPECT_TRUE(client.read().starts_with("HTTP/1.1 200 "));
  ASSERT_EQ(order.size(), 41u);
  EXPECT_LT(std::ranges::find(order, "other") - order.begin(), 20) << "its turn came behind the others";
}

INSTANTIATE_TEST_SUITE_P(Both, ServerTurns, testing::Values(Runs::on_loop, Runs::on_pool),
                         [](const auto& each) { return each.param == Runs::on_loop ? "loop" : "pool"; });

class ServerBytesTest : public ServerAbuseTest {
 protected:
  ServerBytesTest() : ServerAbuseTest(ServerLimits{}) {}
};

TEST_F(ServerBytesTest, MalformedRequestsAreAnsweredAndDropped) {
  const std::pair<std::string, const char*> table[] = {
      {"\x16\x03\x01\x02 \x01\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n"},
      {"GET / HTTP/3\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n"},
      {"GET /ok HTTP/1.1\r\nHost: localhost\r\nA: " + std::string(30'000, 'a') + "\r\n\r\n",
       "HTTP/1.1 431 Request Header Fields Too Large\r\n"},
      {"POST /ok HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n" + std::string(1 << 20, 'b'),
       "HTTP/1.1 413 Payload Too Large\r\n"},
      {"POST /ok HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n", "HTTP/1.1 501 Not Implemented\r\n"},
  };
  for (const auto& endpoint : {server_.unix_endpoint(), server_.tcp_endpoint()}) {
    for (const auto& [text, answer] : table) {
      RawClient client(endpoint);
      client.send(text);
      const std::string all = client.read();
      EXPECT_TRUE(all.starts_with(answer)) << all.substr(0, 200);
      EXPECT_TRUE(all.contains("\r\n\r\n{\"code\":\"bad_request\",")) << all;
      EXPECT_TRUE(client.hung_up());
    }
  }
  expect_all_gone();
}

TEST_F(ServerAbuseTest, AClientThatNeverEndsItsRequestIsDropped) {
  for (const char* text :
       {"", "GET /ok HT", "POST /ok HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n12345"}) {
    RawClient client(server_.unix_endpoint());
    client.send(text);
    EXPECT_EQ(client.read(), "") << text;
    EXPECT_TRUE(client.hung_up()) << text;
  }
  expect_alive();
}

TEST_F(ServerAbuseTest, ABytePerWhileDoesNotExtendTheTimeout) {
  RawClient client(server_.unix_endpoint());
  const auto begin = std::chrono::steady_clock::now();
  bool dropped = false;
  client.send("GET /ok HTTP/1.1\r\nHost: localhost\r\n");
  while (!dropped && std::chrono::steady_clock::now() < begin + 20s) {
    dropped = !client.send("A: b\r\n");
    std::this_thread::sleep_for(20ms);  // the attack's pace
  }
  EXPECT_TRUE(dropped) << "a slow head holds its connection for good";
}

TEST_F(ServerAbuseTest, AnIdleConnectionIsClosed) {
  RawClient client(server_.unix_endpoint());
  client.send(kGet);
  EXPECT_TRUE(client.read().starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(client.hung_up());
}

TEST_F(ServerAbuseTest, AHalfClosedRequestIsDropped) {
  RawClient client(server_.unix_endpoint());
  client.send("POST /ok HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n12345");
  client.half_close();
  EXPECT_EQ(client.read(), "");
  expect_all_gone();
}

TEST_F(ServerAbuseTest, AClientThatNeverReadsAnAnswerIsDropped) {
  RawClient client(server_.tcp_endpoint());
  client.send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
  client.read([](const std::string& all) { return !all.empty(); });
  expect_all_gone();
}

TEST_F(ServerAbuseTest, AClientThatNeverReadsAStreamIsDropped) {
  RawClient client(server_.unix_endpoint());
  client.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  client.read([](const std::string& all) { return all.contains("\r\n\r\n"); });
  const Event event{"e", std::string(10'000, 'x'), ""};
  EXPECT_TRUE(eventually([&] { return !stream_->push(event); })) << "a stream grew without bound";
  expect_all_gone();
  expect_alive();
}

TEST_F(ServerAbuseTest, AThousandConnectionsLeaveTheServerAlive) {
  // Both ends are in this process; many systems limit a process to 1,024 descriptors.
  rlimit descriptors{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &descriptors), 0);
  descriptors.rlim_cur = std::min<rlim_t>(std::max<rlim_t>(descriptors.rlim_cur, 4096), descriptors.rlim_max);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &descriptors), 0);
  const auto refused_of_a_thousand = [&] {
    std::deque<RawClient> clients;
    std::size_t open = 0, refused = 0;
    for (int i = 0; i < 1000; ++i) {
      clients.emplace_back(i % 2 == 0 ? server_.unix_endpoint() : server_.tcp_endpoint());
      open += clients.back().connected() ? 1 : 0;
    }
    EXPECT_EQ(open, 1000U);
    EXPECT_TRUE(eventually([&] { return server_.connections() <= 400; }));
    for (auto& client : clients) refused += client.read().contains("HTTP/1.1 503 Service Unavailable\r\n") ? 1 : 0;
    return refused;
  };
  const auto counted = [&] { return server_.thread().on_loop([&] { return server_.server().refused(); }); };
  // If they come slowly, the first are dropped as idle before there are too many.
  std::size_t refused = 0;
  EXPECT_TRUE(eventually([&] {
    refused += refused_of_a_thousand();
    return counted() > 0;
  }));
  EXPECT_GT(refused, 0U) << "refused without a word";
  expect_all_gone();
  expect_alive();
}

// Descriptors sent with the request, or left unread after it. If the server mishandles them, it blocks for an hour.
void send_descriptors_to_a_server() {
  Router router;
  router.add("GET", "/events", [](const Request&) {
    Response response;
    response.stream = std::make_shared<EventStream>(1 << 20);
    return response;
  });
  router.add("GET", "/ok", [](const Request&) { return Response{}; });
  TestServer server(std::move(router));
  for (const bool unread : {false, true}) {
    RawClient client(server.unix_endpoint());
    if (unread) {
      client.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
      client.read([](const std::string& all) { return all.contains("\r\n\r\n"); });
    }
    LingeringConnection trap;
    const bool sent = trap.send_along(client.fd(), "GET");
    EXPECT_EQ(sent, !kernel_refuses_descriptors()) << errno;
    client.close();
    EXPECT_TRUE(exchange(server.unix_endpoint(), {.target = "/ok"}, 20s));
  }
}

TEST(ServerDescriptors, AClientThatSendsThemBlocksNoOther) { send_descriptors_to_a_server(); }

TEST(ServerDescriptors, AnOlderKernelBlocksNoOtherClient) {
  if (!on_an_old_kernel(send_descriptors_to_a_server)) GTEST_SKIP() << "skipped: no system call may be filtered here";
}

TEST(ServerBounds, OneUserCannotUseUpTheConnectionsOfOthers) {
  Router router;
  router.add("GET", "/ok", [](const Request&) { return Response{}; });
  ServerLimits limits = patient();
  limits.connections_per_uid = 3;
  TestServer server(std::move(router), limits);
  std::deque<RawClient> mine;
  for (int i = 0; i < 3; ++i) {
    mine.emplace_back(server.unix_endpoint()).send(kGet);
    mine.back().read([](const std::string& all) { return all.contains("\r\n\r\n"); });
  }
  RawClient one_more(server.unix_endpoint());
  one_more.send(kGet);
  const std::string refusal = one_more.read();
  EXPECT_TRUE(refusal.starts_with("HTTP/1.1 503 ")) << refusal;
  EXPECT_TRUE(refusal.contains("Retry-After: 1\r\n")) << refusal;
  EXPECT_TRUE(exchange(server.tcp_endpoint(), {.target = "/ok"}, 20s)) << "other users were shut out";
  mine.pop_back();
  EXPECT_TRUE(eventually([&] {
    const auto response = exchange(server.unix_endpoint(), {.target = "/ok"}, 20s);
    return response && response->status == 200;
  })) << "a place that was freed stays taken";
}

// A user's subordinate uids count as that user.
TEST(ServerBounds, SubordinateUidsShareTheirUsersLimit) {
  ServerLimits limits = patient();
  limits.connections_per_uid = 3;
  // Simulates connections that alternate between another uid of alice's and bob.
  auto come = std::make_shared<int>(0);
  limits.user_of = [come](const Peer& peer) {
    EXPECT_EQ(peer.uid, ::geteuid());
    return static_cast<uid_t>((*come)++ % 2 == 0 ? 1000 : 1001);
  };
  Router router;
  router.add("GET", "/user",
             [](const Request& request) { return Response{.body = std::to_string(*request.peer.user)}; });
  TestServer server(std::move(router), limits);
  const auto answered = [](const std::string& all) { return all.contains("\r\n\r\n"); };
  std::deque<RawClient> clients;
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back(server.unix_endpoint()).send("GET /user HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_TRUE(clients.back().read(answered).starts_with("HTTP/1.1 200 ")) << i;
  }
  for (int i = 0; i < 2; ++i) {
    clients.emplace_back(server.unix_endpoint()).send(kGet);
    EXPECT_TRUE(clients.back().read().starts_with("HTTP/1.1 503 ")) << i;
  }
}

ServerLimits with_a_key(std::size_t connections) {
  ServerLimits limits = patient();
  limits.connections_per_uid = connections;
  limits.shows_key = [](const Request& request) { return find(request.headers, "Authorization") != nullptr; };
  return limits;
}

constexpr const char* kWithKey = "GET /ok HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n\r\n";
bool is_whole(const std::string& all) { return all.contains("\r\n\r\n"); }

Router ok() {
  Router router;
  router.add("GET", "/ok", [](const Request&) { return Response{}; });
  return router;
}

TEST(ServerBounds, SilentTcpClientsDoNotExcludeHoldersOfTheToken) {
  TestServer server(ok(), with_a_key(3));
  std::deque<RawClient> strangers;
  for (int i = 0; i < 12; ++i) {
    strangers.emplace_back(server.tcp_endpoint());
    if (i % 2 == 0) strangers.back().send("GET /ok HT");  // never completed
  }
  RawClient client(server.tcp_endpoint());
  client.send(kWithKey);
  EXPECT_TRUE(client.read(is_whole).starts_with("HTTP/1.1 200")) << "the key's holder was shut out";
  EXPECT_TRUE(strangers.front().read().empty());
  EXPECT_TRUE(strangers.front().hung_up()) << "the one that was silent for longest";
  // A client that has shown the key keeps its place, whatever strangers do.
  for (int i = 0; i < 12; ++i) strangers.emplace_back(server.tcp_endpoint()).send(kGet);
  strangers.back().read(is_whole);
  client.send(kWithKey);
  EXPECT_TRUE(client.read(is_whole).starts_with("HTTP/1.1 200"));
}

// Strangers that do not read their responses hold no place either.
TEST(ServerBounds, TcpClientsThatReadNothingExcludeNoTokenHolder) {
  Router router = ok();
  router.add("GET", "/large", [](const Request&) {
    Response response;
    response.body.assign(20 << 20, 'x');
    return response;
  });
  TestServer server(std::move(router), with_a_key(2));
  std::deque<RawClient> strangers;
  for (int i = 0; i < 2; ++i) {
    strangers.emplace_back(server.tcp_endpoint()).send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
    strangers.back().read(is_whole);
  }
  RawClient client(server.tcp_endpoint());
  client.send(kWithKey);
  EXPECT_TRUE(client.read(is_whole).starts_with("HTTP/1.1 200"));
}

TEST(ServerBounds, HoldersOfTheTokenAreBoundedToo) {
  TestServer server(ok(), with_a_key(2));
  std::deque<RawClient> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back(server.tcp_endpoint()).send(kWithKey);
    EXPECT_TRUE(clients.back().read(is_whole).starts_with(i < 2 ? "HTTP/1.1 200" : "HTTP/1.1 503")) << i;
  }
}

TEST(ServerBounds, OtherUsersTogetherCannotExcludeAdministrators) {
  ServerLimits limits = patient();
  limits.connections = 3;
  TestServer server(ok(), limits);
  std::deque<RawClient> others;
  for (int i = 0; i < 20; ++i) others.emplace_back(server.tcp_endpoint()).send(kGet);
  for (int i = 0; i < 3; ++i) {
    others.emplace_back(server.unix_endpoint()).send(kGet);
    others.back().read(is_whole);
  }
  EXPECT_TRUE(exchange(server.unix_endpoint(), {.target = "/ok"}, 20s)) << "our own user was shut out";
}

}  // namespace
}  // namespace headgate::http
