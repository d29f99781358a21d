// Greedy clients against the HTTP server of the built daemon, and which users can reach it at all.
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <vector>

#include "base/unique_fd.hpp"
#include "daemon_program.hpp"

namespace headgate::e2e {
namespace {

using std::chrono::milliseconds;

UniqueFd connected(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fd.reset();
  return fd;
}

// Runs `work` in a child that has switched to that user; returns its result.
int as_user(uid_t uid, gid_t gid, const std::function<int()>& work) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(60);
    if (::setgroups(0, nullptr) != 0 || ::setgid(gid) != 0 || ::setuid(uid) != 0) ::_exit(99);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(work());
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// An exit status has 8 bits, so 403 becomes 43.
int status_of(const std::string& socket, const std::string& method, const std::string& target,
              const std::string& body = {}) {
  const auto reply =
      http::exchange({.path = socket}, {.method = method, .target = target, .body = body}, milliseconds(20'000));
  return reply ? reply->status / 100 * 10 + std::min(reply->status % 100, 9) : 1;
}

// Returns an unused port, which the kernel will not assign again soon.
std::string free_port() {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) return {};
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return std::to_string(ntohs(address.sin_port));
}

std::string raw_tcp(const std::string& port, const std::string& text) {
  const auto address = http::Endpoint{.host = "127.0.0.1", .port = static_cast<std::uint16_t>(std::stoul(port))};
  sockaddr_storage storage{};
  const auto found = http::address_of(address);
  if (!found) return {};
  std::memcpy(&storage, &found->storage, sizeof storage);
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&storage), found->size) != 0) return {};
  (void)!::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
  std::string all;
  char bytes[4096];
  for (ssize_t size; (size = ::recv(fd.get(), bytes, sizeof bytes, 0)) > 0;)
    all.append(bytes, static_cast<std::size_t>(size));
  return all;
}

std::string get(const std::string& port, const std::string& host) {
  return raw_tcp(port, "GET /v1/node HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n");
}

TEST(DaemonAbuse, AForeignPageWithOurAddressIsNotAnswered) {
  const Cli files;
  std::ofstream(files.directory() + "/names.toml") << "[node]\nnames = \"lab-3,gpu.example.org\"\n";
  const std::string port = free_port();
  ASSERT_FALSE(port.empty());
  const Daemon daemon({"--listen", "127.0.0.1:" + port, "--config", files.directory() + "/names.toml"});
  for (const std::string& host : {"127.0.0.1:" + port, std::string("localhost"), std::string("lab-3:80")})
    EXPECT_TRUE(get(port, host).starts_with("HTTP/1.1 200 ")) << host;
  const std::string refused = get(port, "evil.example:" + port);
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 403 ")) << refused;
  EXPECT_NE(refused.find("node.names"), std::string::npos) << refused;
  // An unknown caller cannot create anything.
  const std::string body = R"({"name":"mine","mem":"1GiB"})";
  const std::string made =
      raw_tcp(port, "POST /v1/shares HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
                        std::to_string(body.size()) + "\r\n\r\n" + body);
  EXPECT_TRUE(made.starts_with("HTTP/1.1 403 ")) << made;
  EXPECT_TRUE(daemon.snapshot().shares.empty());
}

TEST(DaemonAbuse, OnlyTheControlGroupReachesRootsDaemon) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can become another user";
  const group* const users = ::getgrgid(100);
  ASSERT_NE(users, nullptr);
  const Cli files;
  std::ofstream(files.directory() + "/group.toml") << "[node]\ngroup = \"" << users->gr_name << "\"\n";
  const Daemon daemon({"--config", files.directory() + "/group.toml"});
  ASSERT_EQ(::chmod(daemon.cli().directory().c_str(), 0711), 0);
  struct stat facts{};
  ASSERT_EQ(::stat(daemon.cli().runtime().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0755u);
  ASSERT_EQ(::stat((daemon.cli().runtime() + "/control").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0750u);
  EXPECT_EQ(facts.st_gid, 100u);
  EXPECT_EQ(as_user(12'345, 100, [&] { return status_of(daemon.socket(), "GET", "/v1/node"); }), 20);
  EXPECT_EQ(as_user(12'345, 12'345, [&] { return status_of(daemon.socket(), "GET", "/v1/node"); }), 1);
}

// Connects with the effective uid `uid` of the caller's namespace and asks; the connection stays. Returns the status.
int status_kept_open(const std::string& socket, uid_t uid, std::vector<UniqueFd>& open) {
  if (::seteuid(uid) != 0) return 1;
  UniqueFd fd = connected(socket);
  const std::string request = "GET /v1/node HTTP/1.1\r\nHost: localhost\r\n\r\n";
  std::string answer(64, 0);
  if (::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return 2;
  answer.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::recv(fd.get(), answer.data(), answer.size(), 0))));
  open.push_back(std::move(fd));
  return answer.size() > 12 ? std::stoi(answer.substr(9, 3)) : 3;
}

// A user without root has as many uids as /etc/subuid gives it: it makes a user namespace, and newuidmap, which is
// root's, writes the map.
TEST(DaemonAbuse, SubordinateUidsOfAUserNamespaceAreOneUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can become another user";
  const Cli files;
  std::ofstream(files.directory() + "/all.toml") << "[node]\ncallers = \"all\"\nconnections_per_user = 3\n";
  const Daemon daemon({"--config", files.directory() + "/all.toml"});
  ASSERT_EQ(::chmod(daemon.cli().directory().c_str(), 0711), 0);
  int made[2], mapped[2];
  ASSERT_EQ(::pipe2(made, O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(mapped, O_CLOEXEC), 0);
  const pid_t caller = ::fork();
  if (caller == 0) {
    ::alarm(60);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::setgroups(0, nullptr) != 0 || ::setgid(12'345) != 0 || ::setuid(12'345) != 0) ::_exit(99);
    ::prctl(PR_SET_DUMPABLE, 1);
    char byte = ::unshare(CLONE_NEWUSER) == 0 ? 'y' : 'n';
    if (::write(made[1], &byte, 1) != 1 || ::read(mapped[0], &byte, 1) != 1) ::_exit(98);
    if (::setresuid(0, 0, 0) != 0) ::_exit(97);
    std::vector<UniqueFd> open;
    for (uid_t uid = 1; uid <= 3; ++uid)
      if (status_kept_open(daemon.socket(), uid, open) != 200 || ::seteuid(0) != 0) ::_exit(static_cast<int>(uid));
    const int fourth = status_kept_open(daemon.socket(), 4, open);
    ::_exit(fourth == 503 ? 0 : fourth == 200 ? 20 : 21);
  }
  char byte = 0;
  ASSERT_EQ(::read(made[0], &byte, 1), 1);
  if (byte == 'y') {
    const std::string proc = "/proc/" + std::to_string(caller);
    std::ofstream(proc + "/uid_map") << "0 200000 1000\n";
    std::ofstream(proc + "/gid_map") << "0 200000 1000\n";
    ASSERT_EQ(::write(mapped[1], &byte, 1), 1);
  } else {
    ::kill(caller, SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(caller, &status, 0), caller);
  if (byte != 'y') GTEST_SKIP() << "no user namespaces here";
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  // Another user is not affected.
  EXPECT_EQ(as_user(12'346, 12'346, [&] { return status_of(daemon.socket(), "GET", "/v1/node"); }), 20);
}

TEST(DaemonAbuse, OnlyAdministratorsOvercommit) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can become another user";
  const Daemon daemon;
  ASSERT_EQ(::chmod(daemon.cli().directory().c_str(), 0711), 0);
  for (const std::string& path : {daemon.cli().runtime(), daemon.cli().runtime() + "/control"})
    ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  ASSERT_EQ(::chmod(daemon.socket().c_str(), 0666), 0);
  const auto asked = [&](const char* method, const std::string& target, const std::string& body) {
    return as_user(12'345, 12'345, [&] { return status_of(daemon.socket(), method, target, body); });
  };
  EXPECT_EQ(asked("POST", "/v1/shares", R"({"name":"committed","mem":"1GiB"})"), 21);
  EXPECT_EQ(asked("POST", "/v1/shares", R"({"name":"more","mem":"1GiB","overcommit":true})"), 43);
  EXPECT_EQ(asked("PATCH", "/v1/shares/committed", R"({"overcommit":true})"), 43);
  EXPECT_EQ(asked("PATCH", "/v1/shares/committed", R"({"mem":"2GiB"})"), 20);
  EXPECT_EQ(daemon.ask("PATCH", "/v1/shares/committed", R"({"overcommit":true,"mem":"3GiB"})").status, 200);
  EXPECT_EQ(asked("PATCH", "/v1/shares/committed", R"({"mem":"100GiB"})"), 43);
  EXPECT_EQ(asked("PATCH", "/v1/shares/committed", R"({"ttl":"8h"})"), 20);
}

TEST(DaemonAbuse, RepliesToAUserHaveNothingOfOthers) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can become another user";
  const Daemon daemon;
  ASSERT_EQ(::chmod(daemon.cli().directory().c_str(), 0711), 0);
  for (const std::string& path : {daemon.cli().runtime(), daemon.cli().runtime() + "/control"})
    ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  ASSERT_EQ(::chmod(daemon.socket().c_str(), 0666), 0);
  ASSERT_EQ(daemon.ask("POST", "/v1/shares", R"({"name":"secret","mem":"1GiB"})").status, 201);
  for (const char* whose : {R"("user":4711)", R"("group":4711)", R"("user":12345)"})
    ASSERT_EQ(daemon.ask("PATCH", "/v1/quotas", std::string("{") + whose + R"(,"shares":5})").status, 200) << whose;
  const std::string gpu = daemon.snapshot().gpus.at(0).uuid;
  const auto body_of = [&](const std::string& target) {
    const auto reply = http::exchange({.path = daemon.socket()}, {.target = target}, milliseconds(20'000));
    return reply && reply->status == 200 ? reply->body : "";
  };
  const std::vector<std::string> views = {"/v1/snapshot", "/v1/shares",      "/v1/processes", "/v1/events",
                                          "/metrics",     "/metrics/influx", "/metrics/json", "/v1/queue"};
  for (const std::string& view : views) {
    const bool shown = body_of(view).contains("secret");
    EXPECT_EQ(shown, view != "/v1/processes" && view != "/v1/queue") << view << ", to root";
    EXPECT_EQ(as_user(12'345, 12'345, [&] { return body_of(view).empty() ? 2 : body_of(view).contains("secret"); }), 0)
        << view;
  }
  // Nor in the error shown while a directory blocks the socket's path, which the daemon retries each second.
  const std::string door = daemon.cli().runtime() + "/shares/secret/tenant.sock";
  ASSERT_TRUE(eventually([&] {
    ::unlink(door.c_str());
    return ::mkdir(door.c_str(), 0700) == 0;
  }));
  const auto unready = [&] {
    const auto reply = http::exchange({.path = daemon.socket()}, {.target = "/readyz"}, milliseconds(20'000));
    if (!reply || reply->status != 503) return 3;
    return reply->body.contains("secret") ? 2 : reply->body.contains("cannot enter 1 share") ? 0 : 1;
  };
  EXPECT_EQ(unready(), 2) << "to root";
  EXPECT_EQ(as_user(12'345, 12'345, unready), 0);
  ASSERT_EQ(::rmdir(door.c_str()), 0);
  const auto asked = [&](const char* method, const std::string& target) {
    return as_user(12'345, 12'345, [&] { return status_of(daemon.socket(), method, target); });
  };
  EXPECT_EQ(asked("GET", "/v1/shares/secret"), 44);
  EXPECT_EQ(asked("POST", "/v1/gpus/" + gpu + "/release"), 43);
  EXPECT_EQ(as_user(12'345, 12'345,
                    [&] {
                      const std::string quotas = body_of("/v1/quotas");
                      return quotas.contains("4711") ? 2 : quotas.contains("12345") ? 0 : 3;
                    }),
            0);
}

TEST(DaemonAbuse, UsersCannotTakeMoreTurns) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can become another user";
  const Daemon daemon;
  ASSERT_EQ(::chmod(daemon.cli().directory().c_str(), 0711), 0);
  for (const std::string& path : {daemon.cli().runtime(), daemon.cli().runtime() + "/control"})
    ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  ASSERT_EQ(::chmod(daemon.socket().c_str(), 0666), 0);
  const auto asked = [&](const char* method, const std::string& target, const std::string& body) {
    return as_user(12'345, 12'345, [&] { return status_of(daemon.socket(), method, target, body); });
  };
  EXPECT_EQ(asked("POST", "/v1/shares", R"({"name":"greedy","mem":"2GiB","weight":1000})"), 43);
  EXPECT_EQ(asked("POST", "/v1/queue", R"({"name":"greedy","mem":"2GiB","class":"latency","until_empty":true})"), 43);
  EXPECT_EQ(asked("POST", "/v1/shares", R"({"name":"modest","mem":"2GiB","weight":100})"), 21);
  EXPECT_EQ(asked("PATCH", "/v1/shares/modest", R"({"weight":101})"), 43);
  ASSERT_EQ(daemon.ask("PATCH", "/v1/quotas", R"({"user":12345,"weight":300})").status, 200);
  EXPECT_EQ(asked("PATCH", "/v1/shares/modest", R"({"weight":300})"), 20);
}

TEST(DaemonAbuse, OneUsersConnectionsStreamsAndSharesAreBounded) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can become another user";
  const Cli files;
  std::ofstream(files.directory() + "/bounds.toml")
      << "[node]\nconnections_per_user = 12\nstreams_per_user = 3\nshares_per_user = 2\n";
  const Daemon daemon({"--config", files.directory() + "/bounds.toml"});
  ASSERT_EQ(::chmod(daemon.cli().directory().c_str(), 0711), 0);
  ASSERT_EQ(::chmod((daemon.cli().runtime() + "/control").c_str(), 0755), 0);
  ASSERT_EQ(::chmod(daemon.socket().c_str(), 0666), 0);
  const auto attack = [&] {
    for (const char* name : {"a", "b"}) {
      if (status_of(daemon.socket(), "POST", "/v1/shares", std::string(R"({"name":")") + name + R"(","mem":"1GiB"})") !=
          21)
        return 2;
    }
    const auto third = http::exchange(
        {.path = daemon.socket()}, {.method = "POST", .target = "/v1/shares", .body = R"({"name":"c","mem":"1GiB"})"},
        milliseconds(20'000));
    if (!third || third->status != 403 || !third->body.contains("node.shares_per_user")) return 3;
    std::vector<http::EventSource> streams;
    for (int i = 0; i < 3; ++i) {
      auto stream =
          http::EventSource::open({.path = daemon.socket()}, {.target = "/v1/events?follow=1"}, milliseconds(20'000));
      if (!stream) return 4;
      streams.push_back(std::move(*stream));
    }
    if (status_of(daemon.socket(), "GET", "/v1/events?follow=1") != 49) return 5;
    std::vector<UniqueFd> silent;
    for (int i = 0; i < 30; ++i) silent.push_back(connected(daemon.socket()));
    // Once all of the user's connections are in use, further ones are refused with a message.
    for (int i = 0; i < 200; ++i) {
      if (status_of(daemon.socket(), "GET", "/v1/node") == 53) return 0;
      rest_ms(20);
    }
    return 6;
  };
  EXPECT_EQ(as_user(12'345, 12'345, attack), 0);
  // Others are served during the attack and after it.
  EXPECT_EQ(daemon.ask("GET", "/healthz").status, 200);
  EXPECT_EQ(daemon.ask("POST", "/v1/shares", R"({"name":"d","mem":"1GiB"})").status, 201)
      << "an administrator is not counted";
  std::ofstream(files.directory() + "/bounds.toml") << "[node]\nshares_per_user = 3\n";
  daemon.signal(SIGHUP);
  EXPECT_TRUE(eventually([&] {
    return as_user(12'345, 12'345, [&] {
             return status_of(daemon.socket(), "POST", "/v1/shares", R"({"name":"c","mem":"1GiB"})");
           }) == 21;
  })) << "from the reload on he may have one more";
}

TEST(DaemonAbuse, EventReadersThatNeverReadAreBounded) {
  const Daemon daemon;
  rlimit descriptors{};
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  descriptors.rlim_cur = std::min<rlim_t>(descriptors.rlim_max, 4096);
  ::setrlimit(RLIMIT_NOFILE, &descriptors);
  std::vector<UniqueFd> never_read;
  constexpr char kFollow[] = "GET /v1/events?follow=1&after=0 HTTP/1.1\r\nHost: h\r\n\r\n";
  for (int i = 0; i < 1000; ++i) {
    never_read.push_back(connected(daemon.socket()));
    if (never_read.back())
      (void)!::send(never_read.back().get(), kFollow, sizeof kFollow - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  // Another user is served at the same time, while root's quota of connections is used up.
  if (::geteuid() == 0) {
    ASSERT_EQ(::chmod(daemon.cli().directory().c_str(), 0711), 0);
    ASSERT_EQ(::chmod((daemon.cli().runtime() + "/control").c_str(), 0755), 0);
    ASSERT_EQ(::chmod(daemon.socket().c_str(), 0666), 0);
    EXPECT_EQ(as_user(12'345, 12'345, [&] { return status_of(daemon.socket(), "GET", "/healthz"); }), 20);
  }
  never_read.clear();
  EXPECT_TRUE(eventually([&] {
    const auto reply = http::exchange({.path = daemon.socket()}, {.target = "/healthz"}, milliseconds(5000));
    return reply && reply->status == 200;
  }));
}

TEST(DaemonAbuse, NamesWithControlCharactersAreHarmless) {
  const Daemon daemon;
  for (const char* name :
       {"a\\u001b[2Jb", "a\\nb", "a\\u0000b", "a\\u009bb", "\\u202eevil", "../x", "a/b", "", ".", "-rf"}) {
    const auto reply = daemon.ask("POST", "/v1/shares", std::string(R"({"name":")") + name + R"(","mem":"1GiB"})");
    EXPECT_EQ(reply.status, 400) << name << ": " << reply.body;
    for (const char c : reply.body) {
      EXPECT_FALSE((static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f) << reply.body;
    }
  }
  for (const char* target : {"/v1/shares/%1b%5b2J", "/v1/shares/a%0ab", "/v1/gpus/%00", "/%7f"})
    EXPECT_EQ(daemon.ask("GET", target).status, 400) << target;
  EXPECT_EQ(daemon.ask("GET", "/v1/shares/%c2%9b2J").status, 404);
  EXPECT_TRUE(daemon.snapshot().shares.empty());
}

}  // namespace
}  // namespace headgate::e2e
