// All of the daemon's threads at once: registrations and deaths, operations, snapshots, metrics, event streams. Most
// useful with a headgated built with ThreadSanitizer (dev/sanitize tsan), which HEADGATE_TEST_DAEMON names.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "daemon_program.hpp"
#include "page_liar.hpp"

namespace headgate::e2e {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::chrono::seconds kLength{6};
// A sanitizer build is slow on a busy machine.
constexpr milliseconds kPatient{30'000};

pid_t in_a_child(const std::function<int()>& work) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(110);
  ::_exit(work());
}

int exit_status(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(DaemonTogether, SurvivesConcurrentOperations) {
  Daemon daemon;
  for (const char* name : {"a", "b", "c"})
    ASSERT_EQ(daemon.ask("POST", "/v1/shares", std::string(R"({"name":")") + name + R"(","mem":"8GiB"})").status, 201);
  const http::Endpoint endpoint{.path = daemon.socket()};
  const auto end = Clock::now() + kLength;
  std::vector<pid_t> clients;
  for (int client = 0; client < 3; ++client) {
    clients.push_back(in_a_child([&, client] {
      const std::string own = "own" + std::to_string(client), one = std::string(1, static_cast<char>('a' + client));
      const struct {
        std::string method, target, body;
      } requests[] = {
          {"GET", "/v1/snapshot", ""},
          {"PATCH", "/v1/shares/" + one, R"({"mem":"7GiB","compute":"30%"})"},
          {"GET", "/metrics", ""},
          {"POST", "/v1/shares", R"({"name":")" + own + R"(","mem":"1GiB"})"},
          {"POST", "/v1/shares/" + one + "/pause", ""},
          {"GET", "/v1/events?after=0", ""},
          {"POST", "/v1/shares/" + one + "/resume", ""},
          {"GET", "/v1/processes", ""},
          {"DELETE", "/v1/shares/" + own, ""},
          {"GET", "/readyz", ""},
      };
      for (std::size_t n = 0; Clock::now() < end; ++n) {
        const auto& [method, target, body] = requests[n % std::size(requests)];
        const auto reply = http::exchange(endpoint, {.method = method, .target = target, .body = body}, kPatient);
        if (!reply || reply->status >= 500) return 10 + static_cast<int>(n % std::size(requests));
      }
      return 0;
    }));
  }
  clients.push_back(in_a_child([&] {
    // Reads streams for a while, then closes them.
    while (Clock::now() < end) {
      auto stream = http::EventSource::open(endpoint, {.target = "/v1/events?follow=1&after=0"}, kPatient);
      if (!stream) return 1;
      for (int n = 0; n < 20 && Clock::now() < end; ++n) {
        if (const auto event = stream->next(kPatient); !event || !*event) return 2;
      }
    }
    return 0;
  }));
  std::array<pid_t, 6> tenants{};
  std::size_t entered = 0;
  for (std::size_t n = 0; Clock::now() < end; ++n) {
    pid_t& tenant = tenants[n % tenants.size()];
    end_liar(tenant);
    tenant = start_liar(daemon.cli().runtime() + "/shares/" + std::string(1, "abc"[n % 3]), Lie::none, n);
    entered += tenant > 0 ? 1 : 0;
    rest_ms(20);
  }
  for (const pid_t client : clients) EXPECT_EQ(exit_status(client), 0);
  EXPECT_GT(entered, 10u);
  for (const pid_t tenant : tenants) end_liar(tenant);
  EXPECT_TRUE(eventually([&] {
    const auto shares = daemon.snapshot().shares;
    for (const auto& share : shares) {
      if (share.processes != 0 || share.devices.at(0).memory_used_bytes != 0) return false;
    }
    return shares.size() >= 3;
  }));
  EXPECT_EQ(daemon.stop(), 0);
  EXPECT_EQ(daemon.errors().find("ThreadSanitizer"), std::string::npos) << daemon.errors();
}

}  // namespace
}  // namespace headgate::e2e
