// Bad input to the control socket: the daemon replies or hangs up, and survives.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "base/unique_fd.hpp"
#include "daemon_program.hpp"

namespace headgate::e2e {
namespace {

UniqueFd connected(const Daemon& daemon) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, daemon.socket().c_str(), sizeof address.sun_path - 1);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fd.reset();
  return fd;
}

void send_text(int fd, const std::string& text) {
  (void)!::send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

TEST(DaemonHostile, NoRequestEndsTheDaemonOrChangesAShare) {
  const Daemon daemon;
  ASSERT_EQ(daemon.ask("POST", "/v1/shares", R"({"name":"alice","mem":"8GiB"})").status, 201);
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    const auto fd = connected(daemon);
    if (!fd) continue;
    std::string text =
        i % 3 == 0   ? "PATCH /v1/shares/alice HTTP/1.1\r\nHost: x\r\nContent-Length: 17\r\n\r\n{\"mem\":\"12GiB\"}xx"
        : i % 3 == 1 ? "DELETE /v1/shares/alice HTTP/1.1\r\nHost: x\r\n"
                     : "GET /v1/snapshot HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const int flips = 1 + static_cast<int>(random() % 8);
    for (int f = 0; f < flips; ++f) text[random() % text.size()] = static_cast<char>(random());
    send_text(fd.get(), text.substr(0, random() % (text.size() + 1)));
  }
  EXPECT_EQ(daemon.ask("GET", "/healthz").status, 200);
  EXPECT_EQ(daemon.share("alice").name, "alice");
}

TEST(DaemonHostile, EveryErrorIsJsonWithCodeMessageAndHint) {
  const Daemon daemon;
  const struct {
    const char *method, *target, *body;
    int status;
  } cases[] = {
      {"GET", "/v1/shares/none", "", 404},
      {"GET", "/nowhere", "", 404},
      {"PUT", "/v1/shares", "", 405},
      {"POST", "/v1/shares", "{", 400},
      {"POST", "/v1/shares", R"({"name":"a b"})", 400},
      {"POST", "/v1/shares", R"({"name":"a","memory":"8GiB"})", 400},
      {"POST", "/v1/shares", R"({"name":"a","mem":"900GiB"})", 400},
      {"PATCH", "/v1/shares/none", R"({"mem":"1GiB"})", 404},
      {"DELETE", "/v1/shares/none", "", 404},
      {"PUT", "/v1/quotas", "{}", 400},
  };
  for (const auto& [method, target, body, status] : cases) {
    const auto reply = daemon.ask(method, target, body);
    EXPECT_TRUE(reply.status == status || (status == 400 && reply.status == 409))
        << method << " " << target << " " << body << ": " << reply.status << reply.body;
    for (const char* key : {"\"code\"", "\"message\"", "\"hint\""})
      EXPECT_TRUE(reply.body.contains(key)) << method << " " << target << ": " << reply.body;
  }
}

TEST(DaemonHostile, SilentConnectionsDoNotExcludeOthers) {
  const Daemon daemon;
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 1000; ++i) silent.push_back(connected(daemon));
  // All connections are root's, like ours: root's quota is used up, and the daemon says so.
  const auto reply =
      http::exchange({.path = daemon.socket()}, {.target = "/healthz"}, std::chrono::milliseconds(20'000));
  if (reply) {
    EXPECT_TRUE(reply->status == 200 || reply->status == 503) << reply->status;
  }
  silent.clear();
  EXPECT_TRUE(eventually([&] {
    const auto again =
        http::exchange({.path = daemon.socket()}, {.target = "/healthz"}, std::chrono::milliseconds(5'000));
    return again && again->status == 200;
  }));
}

}  // namespace
}  // namespace headgate::e2e
