// Which settings a running headgated takes over when it reads its configuration again, which it keeps, what it reports.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "daemon_program.hpp"

namespace headgate::e2e {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class DaemonReload : public ::testing::Test {
 protected:
  // Replaces the file atomically.
  void write(const std::string& name, const std::string& text, mode_t mode = 0600) const {
    const std::string path = place(name);
    std::ofstream(path + ".new") << text;
    ASSERT_EQ(::chmod((path + ".new").c_str(), mode), 0);
    fs::rename(path + ".new", path);
  }
  [[nodiscard]] std::string place(const std::string& name) const { return files_.path() + "/" + name; }
  [[nodiscard]] std::vector<std::string> words() const { return {"--config", place("c.toml")}; }
  [[nodiscard]] std::string with_token(const std::string& more = {}) const {
    return "[node]\ntoken_file = \"" + place("token") + "\"\n" + more;
  }

  static std::optional<Json> event(const Daemon& daemon, std::uint64_t after,
                                   const std::function<bool(const Json&)>& is) {
    std::optional<Json> found;
    static_cast<void>(eventually([&] {
      for (const Json& event : Json::parse(daemon.ask("GET", "/v1/events?after=" + std::to_string(after)).body))
        if (is(event)) return found = event, true;
      return false;
    }));
    return found;
  }
  static std::optional<Json> event_of(const Daemon& daemon, const std::string& kind, pid_t pid) {
    return event(daemon, 0, [&](const Json& event) { return event.at("kind") == kind && event.at("pid") == pid; });
  }
  // Reloads and returns the daemon's event about it; null if there is none.
  static Json reload(const Daemon& daemon) {
    const Json before = Json::parse(daemon.ask("GET", "/v1/events").body);
    daemon.signal(SIGHUP);
    return event(daemon, before.empty() ? 0 : before.back().at("sequence").get<std::uint64_t>(),
                 [](const Json& event) { return event.at("kind").get<std::string>().starts_with("config."); })
        .value_or(Json());
  }

  Directory files_;
};

std::map<std::string, std::string> stranger_to(const Daemon& daemon) {
  return {{"HEADGATE_RUNTIME_DIR", daemon.cli().runtime()},
          {"HEADGATE_SIM_DIR", daemon.cli().directory() + "/node"},
          {"LD_LIBRARY_PATH", SIMULATOR_DIR},
          {"LD_PRELOAD", ""}};
}

TEST_F(DaemonReload, AnAuditSetToWarnKillsNoProcess) {
  write("c.toml", "[audit]\npolicy = \"kill\"\n");
  const Daemon daemon(words());
  Program first({BYPASS_PROGRAM, "libcuda.so.1"}, stranger_to(daemon));
  ASSERT_EQ(first.line(), "ready 0") << first.errors();
  ASSERT_TRUE(event_of(daemon, "audit.acted", first.pid()));
  EXPECT_EQ(first.wait(), 128 + SIGKILL);

  write("c.toml", "[audit]\npolicy = \"warn\"\n");
  const Json said = reload(daemon);
  ASSERT_FALSE(said.is_null());
  EXPECT_EQ(said.at("text"), "the configuration was read again; in effect now: audit.policy");
  EXPECT_EQ(said.at("severity"), "info");
  Program second({BYPASS_PROGRAM, "libcuda.so.1"}, stranger_to(daemon));
  ASSERT_EQ(second.line(), "ready 0") << second.errors();
  ASSERT_TRUE(event_of(daemon, "audit.outside", second.pid()));
  // An action of the audit is done before the next snapshot.
  const std::uint64_t then = daemon.snapshot().taken_ns;
  ASSERT_TRUE(eventually([&] { return daemon.snapshot().taken_ns > then; }));
  for (const Json& event : Json::parse(daemon.ask("GET", "/v1/events").body))
    EXPECT_FALSE(event.at("kind") == "audit.acted" && event.at("pid") == second.pid()) << event;
  second.say("alloc 1048576");
  EXPECT_EQ(second.line(), "0");

  write("c.toml", "[audit]\npolicy = \"kill\"\n");
  ASSERT_FALSE(reload(daemon).is_null());
  Program third({BYPASS_PROGRAM, "libcuda.so.1"}, stranger_to(daemon));
  ASSERT_EQ(third.line(), "ready 0") << third.errors();
  ASSERT_TRUE(event_of(daemon, "audit.acted", third.pid()));
  EXPECT_EQ(third.wait(), 128 + SIGKILL);
}

TEST_F(DaemonReload, AProgramMadeExemptIsNoLongerCounted) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can own an exempt program's file";
  write("c.toml", "");
  const Daemon daemon(words());
  fs::copy_file(BYPASS_PROGRAM, place("our-server"));
  Program server({place("our-server"), "libcuda.so.1"}, stranger_to(daemon));
  ASSERT_EQ(server.line(), "ready 0") << server.errors();
  ASSERT_TRUE(eventually([&] { return daemon.snapshot().node.unattended_processes == 1; }));
  write("c.toml", "[audit]\nexempt = \"our-server\"\n");
  ASSERT_FALSE(reload(daemon).is_null());
  EXPECT_TRUE(eventually([&] { return daemon.snapshot().node.unattended_processes == 0; }));
}

class DaemonReloadToken : public DaemonReload {
 protected:
  static constexpr const char *kOld = "old-token-0123456789", *kNew = "new-token-0123456789";

  // Returns the daemon's TCP address; it was told to use any port.
  static http::Endpoint tcp(Daemon& daemon) {
    std::string said;
    const std::string mark = "http://127.0.0.1:";
    EXPECT_TRUE(eventually([&] { return (said += daemon.errors_so_far()).contains(mark); })) << said;
    const auto at = said.find(mark);
    if (at == said.npos) return {};
    return {.host = "127.0.0.1", .port = static_cast<std::uint16_t>(std::stoul(said.substr(at + mark.size())))};
  }
  static http::OutgoingRequest asking(const std::string& target, const char* token) {
    return {.target = target, .headers = {{"Authorization", std::string("Bearer ") + token}}};
  }
  static int status(const http::Endpoint& endpoint, const char* token) {
    const auto reply = http::exchange(endpoint, asking("/v1/node", token), std::chrono::milliseconds(20'000));
    return reply ? reply->status : -1;
  }
  [[nodiscard]] std::vector<std::string> listening() const {
    auto line = words();
    line.insert(line.end(), {"--listen", "127.0.0.1:0"});
    return line;
  }
};

TEST_F(DaemonReloadToken, ARevokedTokenEndsItsConnections) {
  write("token", kOld);
  write("c.toml", with_token());
  Daemon daemon(listening());
  const auto endpoint = tcp(daemon);
  ASSERT_EQ(status(endpoint, kOld), 200);
  auto stream =
      http::EventSource::open(endpoint, asking("/v1/events?follow=1", kOld), std::chrono::milliseconds(20'000));
  ASSERT_TRUE(stream) << stream.error().message;

  write("token", kNew);
  const Json said = reload(daemon);
  ASSERT_FALSE(said.is_null());
  EXPECT_EQ(said.at("text"), "the configuration was read again; in effect now: node.token_file");
  EXPECT_EQ(status(endpoint, kOld), 403);
  EXPECT_EQ(status(endpoint, kNew), 200);
  // The heartbeat is one second, so a stream that stays open would deliver events for ever.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  bool ended = false;
  while (!ended && std::chrono::steady_clock::now() < until) {
    ASSERT_EQ(daemon.ask("POST", "/v1/shares", R"({"name":"a","mem":"1GiB"})").status, 201);
    ASSERT_EQ(daemon.ask("DELETE", "/v1/shares/a").status, 200);
    const auto event = stream->next(std::chrono::milliseconds(5000));
    ended = !event || !*event;
  }
  EXPECT_TRUE(ended);
}

TEST_F(DaemonReloadToken, AMistakeKeepsEveryOldValue) {
  write("token", kOld);
  write("c.toml", with_token());
  Daemon daemon(listening());
  const auto endpoint = tcp(daemon);
  ASSERT_EQ(status(endpoint, kOld), 200);
  const auto stays = [&] {
    const Json said = reload(daemon);
    ASSERT_FALSE(said.is_null());
    EXPECT_EQ(said.at("kind"), "config.refused");
    EXPECT_TRUE(said.at("text").get<std::string>().contains(files_.path())) << said.at("text");
    EXPECT_EQ(said.at("owner_uid").get<std::uint32_t>(), ::geteuid()) << "others do not see it";
    EXPECT_EQ(status(endpoint, kOld), 200);
    EXPECT_EQ(status(endpoint, kNew), 403);
  };
  write("token", kNew);
  write("c.toml", with_token("reserve = \"much\"\n"));
  stays();
  write("token", kNew, 0644);
  write("c.toml", with_token());
  stays();
  write("token", kNew);
  write("c.toml", with_token("[metrics]\nfile = \"here\"\n"));
  stays();
  write("c.toml", with_token("group = \"no-such-group-here\"\n"));  // takes effect at a start only
  stays();
  write("c.toml", with_token());
  ASSERT_EQ(reload(daemon).at("kind"), "config.read");
  EXPECT_EQ(status(endpoint, kNew), 200);
}

// Only a start changes the address, so the daemon is still reachable there.
TEST_F(DaemonReloadToken, APublicDaemonKeepsItsToken) {
  write("token", kOld);
  write("c.toml", with_token("listen = \"0.0.0.0:0\"\n"));
  const Daemon daemon(words());
  write("c.toml", "");
  const Json said = reload(daemon);
  ASSERT_FALSE(said.is_null());
  EXPECT_EQ(said.at("kind"), "config.refused");
  EXPECT_TRUE(said.at("text").get<std::string>().contains("can be reached from outside, and there is no token"))
      << said.at("text");
}

TEST_F(DaemonReload, PoliciesAndLimitsChangeAtTheReload) {
  write("c.toml", "");
  const Daemon daemon(words());
  const auto policy = [&] { return Json::parse(daemon.ask("GET", "/v1/gpus").body).at(0).at("policy"); };
  EXPECT_EQ(policy(), "fair");
  const http::Endpoint socket{.path = daemon.socket()};
  const auto follow = [&] {
    return http::EventSource::open(socket, {.target = "/v1/events?follow=1"}, std::chrono::milliseconds(20'000));
  };
  const auto first = follow(), second = follow();
  EXPECT_TRUE(first && second);
  write("c.toml", "[arbiter]\npolicy = \"off\"\n[node]\nstreams_per_user = 2\n");
  ASSERT_FALSE(reload(daemon).is_null());
  EXPECT_TRUE(eventually([&] { return policy() == "off"; }));
  EXPECT_FALSE(follow()) << "the user already has two streams, the most allowed";
}

TEST_F(DaemonReload, KeysThatNeedARestartAreNamedUntilThen) {
  write("c.toml", "");
  Daemon daemon(words());
  EXPECT_EQ(reload(daemon).at("text"), "the configuration was read again; nothing has changed");
  write("c.toml",
        "[defaults]\nmem = \"1GiB\"\n[audit]\npolicy = \"freeze\"\n[node]\nreserve = \"1GiB\"\nshares_per_user = 3\n"
        "[metrics]\ninterval = \"1s\"\n");
  const std::string wait = "; waiting for a restart: node.reserve, metrics.interval";
  const Json said = reload(daemon);
  ASSERT_FALSE(said.is_null());
  EXPECT_EQ(said.at("text"),
            "the configuration was read again; in effect now: audit.policy, node.shares_per_user" + wait);
  EXPECT_EQ(said.at("severity"), "warn");
  EXPECT_EQ(reload(daemon).at("text"), "the configuration was read again" + wait);
  std::string log;
  EXPECT_TRUE(eventually([&] { return (log += daemon.errors_so_far()).contains("read again" + wait); })) << log;
}

}  // namespace
}  // namespace headgate::e2e
