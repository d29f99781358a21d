// headgated's own listener of the zeusd API: who may set a GPU, and what is told of it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "daemon_program.hpp"
#include "http/client.hpp"

namespace headgate::e2e {
namespace {

using nlohmann::json;

// Where users other than root can reach the socket.
class PowerDaemon {
 public:
  explicit PowerDaemon(const std::string& configuration = "")
      : directory_("/tmp"), socket_(directory_.path() + "/z.sock"), daemon_(words(configuration)) {
    std::filesystem::permissions(directory_.path(), std::filesystem::perms(0755));
  }

  struct Answer {
    int status = -1;
    std::string body;
  };
  // As root; `who`: by setpriv as another user.
  [[nodiscard]] Answer post(const std::string& target, const std::string& who = "") const {
    return curl("-X POST", target, who);
  }
  [[nodiscard]] Answer get(const std::string& target, const std::string& who = "") const {
    return curl("", target, who);
  }
  [[nodiscard]] std::vector<std::string> events(const std::string& kind) const {
    std::vector<std::string> texts;
    std::istringstream lines(daemon_.cli().shell("$H events -o jsonl").out);
    for (std::string line; std::getline(lines, line);) {
      const json event = json::parse(line, nullptr, false);
      if (event.is_object() && event.value("kind", "") == kind) texts.push_back(event.value("text", ""));
    }
    return texts;
  }
  [[nodiscard]] const Daemon& daemon() const { return daemon_; }
  Daemon& daemon() { return daemon_; }
  [[nodiscard]] const std::string& socket() const { return socket_; }

 private:
  std::vector<std::string> words(const std::string& configuration) const {
    std::ofstream(directory_.path() + "/config.toml") << configuration;
    return {"--sim=l40s-x2", "--zeusd-socket", socket_, "--config", directory_.path() + "/config.toml"};
  }
  Answer curl(const std::string& method, const std::string& target, const std::string& who) const {
    const std::string as = who.empty() ? "" : "setpriv --reuid " + who + " --regid " + who + " --clear-groups ";
    const Said said = daemon_.cli().shell(as + "curl -s -m 20 -w '\\n%{http_code}' --unix-socket " + socket_ + " " +
                                          method + " 'http://localhost" + target + "'");
    const auto end = said.out.rfind('\n');
    if (end == std::string::npos) return {-1, said.err};
    return {std::atoi(said.out.c_str() + end + 1), said.out.substr(0, end)};
  }

  Directory directory_;
  std::string socket_;
  Daemon daemon_;
};

const std::string kSet200 = "/gpu/set_power_limit?gpu_ids=0&power_limit_mw=200000&block=true";

TEST(DaemonPower, TheOwnerOfAllSharesSetsTheGpuAndEachWriteIsAnEvent) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: the simulated driver lets only root set GPUs";
  const PowerDaemon power;
  EXPECT_EQ(power.post(kSet200, "4001").status, 403) << "no share on it";
  ASSERT_EQ(power.daemon().cli().shell("$H share create a --gpu 0 --mem 1GiB").status, 0);
  const auto refused = power.post(kSet200, "4001");
  EXPECT_EQ(refused.status, 403);
  EXPECT_NE(refused.body.find("not all shares on it are yours"), std::string::npos) << refused.body;
  EXPECT_EQ(power.get("/gpu/get_power_limit?gpu_ids=0", "4001").body, R"({"0":{"power_limit_mw":350000}})");
  EXPECT_EQ(power.post(kSet200).status, 200) << "root is an administrator";
  EXPECT_EQ(power.get("/gpu/get_power_limit?gpu_ids=0").body, R"({"0":{"power_limit_mw":200000}})");
  const auto events = power.events("power.set");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0], "GPU 0 (NVIDIA L40S) set_power_limit: 350 W -> 200 W, by uid 0");
  EXPECT_EQ(power.post("/gpu/set_power_limit?gpu_ids=0&power_limit_mw=1&block=false").status, 200);
  EXPECT_TRUE(eventually([&] { return power.events("power.failed").size() == 1; })) << "no caller waited for it";
}

TEST(DaemonPower, AGrantLetsItsUserSetWithinItsRange) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: the simulated driver lets only root set GPUs";
  const PowerDaemon power("[[power.grant]]\nusers = [4001]\ngpus = [0]\nwatts = [200, 300]\n");
  EXPECT_EQ(power.post(kSet200, "4001").status, 200);
  EXPECT_EQ(power.post(kSet200, "4002").status, 403);
  const auto outside = power.post("/gpu/set_power_limit?gpu_ids=0&power_limit_mw=310000&block=true", "4001");
  EXPECT_EQ(outside.status, 403);
  EXPECT_NE(outside.body.find("accepted by your grant: 200 W to 300 W"), std::string::npos) << outside.body;
  EXPECT_EQ(power.post("/gpu/set_power_limit?gpu_ids=1&power_limit_mw=200000&block=true", "4001").status, 403);
  EXPECT_EQ(power.post("/gpu/reset_locked_clocks?gpu_ids=0&block=true", "4001").status, 403);
  EXPECT_EQ(power.get("/gpu/get_power_limit?gpu_ids=1").body, R"({"1":{"power_limit_mw":350000}})");
}

std::string limit_of_gpu_0(const PowerDaemon& power) { return power.get("/gpu/get_power_limit?gpu_ids=0").body; }
const std::string k200 = R"({"0":{"power_limit_mw":200000}})", k350 = R"({"0":{"power_limit_mw":350000}})";

std::string lease_of(pid_t holder) {
  return R"({"gpus":[0],"settings":{"power_limit_mw":200000},"holder_pid":)" + std::to_string(holder) + "}";
}

TEST(DaemonPower, AHolderThatIsKilledLeavesTheFormerLimit) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: the simulated driver lets only root set GPUs";
  const PowerDaemon power;
  Program holder({"/bin/sleep", "600"}, {});
  const auto made = power.daemon().ask("POST", "/v1/power/leases", lease_of(holder.pid()));
  ASSERT_EQ(made.status, 201) << made.body;
  EXPECT_EQ(limit_of_gpu_0(power), k200);
  const auto second = power.post("/gpu/set_power_limit?gpu_ids=0&power_limit_mw=250000&block=true", "4001");
  EXPECT_EQ(second.status, 403);
  EXPECT_EQ(power.daemon().ask("POST", "/v1/power/leases", lease_of(holder.pid())).status, 409);
  holder.kill_now();
  holder.wait();
  EXPECT_TRUE(eventually([&] { return limit_of_gpu_0(power) == k350; }));
  EXPECT_TRUE(eventually([&] { return power.events("power.lease").size() == 2; })) << "begun and ended";
  EXPECT_EQ(power.daemon().ask("GET", "/v1/power/leases").body, "[]\n");
}

TEST(DaemonPower, AKilledDaemonAdoptsTheLeaseOfALivingHolder) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: the simulated driver lets only root set GPUs";
  PowerDaemon power;
  Program holder({"/bin/sleep", "600"}, {}), other({"/bin/sleep", "600"}, {});
  ASSERT_EQ(power.daemon().ask("POST", "/v1/power/leases", lease_of(holder.pid())).status, 201);
  const std::string second = R"({"gpus":[1],"settings":{"gpu_clocks_mhz":[500,900]},"holder_pid":)";
  ASSERT_EQ(power.daemon().ask("POST", "/v1/power/leases", second + std::to_string(other.pid()) + "}").status, 201);
  power.daemon().kill_and_wait();
  other.kill_now();
  other.wait();
  power.daemon().start();
  EXPECT_EQ(limit_of_gpu_0(power), k200);
  EXPECT_TRUE(eventually([&] {
    const json left = json::parse(power.daemon().ask("GET", "/v1/power/leases").body, nullptr, false);
    return left.is_array() && left.size() == 1 && left[0]["holder_pid"] == holder.pid();
  }));
  EXPECT_EQ(power.daemon().stop(), 0);
  power.daemon().start();
  EXPECT_TRUE(eventually([&] { return limit_of_gpu_0(power) == k200; })) << "the holder lives on";
  holder.kill_now();
  holder.wait();
  EXPECT_TRUE(eventually([&] { return limit_of_gpu_0(power) == k350; }));
}

TEST(DaemonPower, ALeaseIsSeenAndEndedByItsOwnerAndAdministrators) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: the simulated driver lets only root set GPUs";
  const PowerDaemon power;
  const auto ask = [&](const char* method, const std::string& target, const std::string& body = "") {
    return power.daemon().ask(method, target, body);
  };
  EXPECT_EQ(ask("POST", "/v1/power/leases", R"({"gpus":[0],"settings":{"power_limit_mw":200000}})").status, 400);
  EXPECT_EQ(ask("POST", "/v1/power/leases", R"({"gpus":[9],"settings":{"persistence":true},"ttl_s":60})").status, 404);
  const auto refused = ask("POST", "/v1/power/leases", R"({"gpus":[0],"settings":{"power_limit_mw":1},"ttl_s":60})");
  EXPECT_EQ(refused.status, 400) << refused.body;
  EXPECT_NE(refused.body.find("100 W to 350 W"), std::string::npos) << refused.body;
  const auto made = ask("POST", "/v1/power/leases", R"({"gpus":[0],"settings":{"power_limit_mw":200000},"ttl_s":60})");
  ASSERT_EQ(made.status, 201) << made.body;
  const std::string id = json::parse(made.body, nullptr, false).value("id", "");
  EXPECT_EQ(ask("POST", "/v1/power/leases/" + id + "/heartbeat").status, 200);
  EXPECT_EQ(ask("DELETE", "/v1/power/leases/" + id).status, 200);
  EXPECT_EQ(limit_of_gpu_0(power), k350);
  EXPECT_EQ(ask("DELETE", "/v1/power/leases/" + id).status, 404);
}

TEST(DaemonPower, AReleaseGivesUpThePersistenceModeAndTheDriver) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: the simulated driver lets only root set GPUs";
  PowerDaemon power;
  ASSERT_EQ(power.get("/gpu/get_persistence_mode?gpu_ids=0").body, R"({"0":{"enabled":true}})");
  ASSERT_EQ(power.post(kSet200).status, 200);
  ASSERT_EQ(power.daemon().ask("POST", "/v1/gpus/all/release").status, 200);
  EXPECT_EQ(power.get("/gpu/get_persistence_mode?gpu_ids=0").status, 500) << "the driver is let go of";
  const auto settings = power.daemon().cli().shell("$H sim truth --sim=l40s-x2 --json").out;
  EXPECT_NE(settings.find("nvmlDeviceSetPersistenceMode"), std::string::npos) << settings;
  // A daemon that ends meanwhile cannot reach the GPUs: what is to be put back stays in the file.
  EXPECT_EQ(power.daemon().stop(), 0);
  power.daemon().start();
  EXPECT_EQ(limit_of_gpu_0(power), k200);
}

TEST(DaemonPower, ALimitWithoutPersistenceModeIsWarnedOf) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: the simulated driver lets only root set GPUs";
  const PowerDaemon power;
  ASSERT_EQ(power.post(kSet200).status, 200);
  EXPECT_TRUE(power.events("power.forgotten").empty());
  ASSERT_EQ(power.post("/gpu/set_persistence_mode?gpu_ids=0&enabled=false&block=true").status, 200);
  ASSERT_EQ(power.post(kSet200).status, 200);
  ASSERT_EQ(power.post(kSet200).status, 200);
  EXPECT_EQ(power.events("power.forgotten").size(), 1u);
}

// The lines of docs/operations.md that begin with curl, on a socket of the test's.
std::vector<std::string> documented_lines() {
  std::vector<std::string> lines;
  std::ifstream page(HEADGATE_OPERATIONS);
  for (std::string line, longer; std::getline(page, line);) {
    if (longer.empty() && !line.starts_with("curl --unix-socket /run/")) continue;
    longer += line;
    if (longer.ends_with('\\')) {
      longer.pop_back();
    } else {
      lines.push_back(std::exchange(longer, ""));
    }
  }
  return lines;
}

TEST(DaemonPower, TheDocumentedLinesAnswerAndAKilledHolderLeavesTheFormerLimit) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: the simulated driver lets only root set GPUs";
  const PowerDaemon power;
  Program holder({"/bin/sleep", "600"}, {});
  std::vector<std::string> answers;
  for (std::string line : documented_lines()) {
    for (const auto& [from, to] : {std::pair<std::string, std::string>{"/run/zeusd/zeusd.sock", power.socket()},
                                   {"/run/headgate/control/headgate.sock", power.daemon().socket()},
                                   {"4711", std::to_string(holder.pid())}})
      if (const auto at = line.find(from); at != std::string::npos) line.replace(at, from.size(), to);
    // A stream goes on: its first line is enough.
    const Said said = power.daemon().cli().shell(line + " -s -w ' %{http_code}' | head -n 1");
    answers.push_back(said.out.substr(0, said.out.find('\n')));
    if (line.contains("set_power_limit")) {
      EXPECT_EQ(power.post("/gpu/set_power_limit?gpu_ids=0&power_limit_mw=350000&block=true").status, 200);
    }
  }
  ASSERT_EQ(answers.size(), 5u);
  EXPECT_TRUE(answers[0].starts_with(R"({"gpus":[{"id":0,"name":"NVIDIA L40S")") && answers[0].ends_with(" 200"));
  EXPECT_EQ(answers[1], " 200");
  EXPECT_EQ(answers[2], k350 + " 200");
  EXPECT_TRUE(answers[3].starts_with("data: {\"timestamp_ms\":") &&
              answers[3].ends_with(R"("gpu_id":0,"power_mw":34000})"))
      << answers[3];
  EXPECT_TRUE(answers[4].contains(R"("saved":{"GPU-)") && answers[4].contains(R"({"power_limit_mw":350000}})"))
      << answers[4];
  EXPECT_EQ(limit_of_gpu_0(power), k200) << "the lease's";
  holder.kill_now();
  holder.wait();
  EXPECT_TRUE(eventually([&] { return limit_of_gpu_0(power) == k350; }));
}

TEST(DaemonPower, AMistakeInTheConfigurationEndsTheStart) {
  const Cli cli;
  const std::pair<const char*, const char*> bad[] = {
      {"[[power.grant]]\nusers = ['no-such-user-here']\nwatts = [1, 2]\n", "'no-such-user-here' is no user"},
      {"[zeusd]\nlisten = ['0.0.0.0:4938']\n", "set zeusd.signing_key"},
      {"[zeusd]\nsigning_key = '/nothing/there'\n", "signing key /nothing/there"},
  };
  for (const auto& [text, words] : bad) {
    std::ofstream(cli.directory() + "/c.toml") << text;
    const Said said =
        cli.shell(std::string(HEADGATE_DAEMON) + " --check --sim=tiny --config " + cli.directory() + "/c.toml");
    EXPECT_NE(said.status, 0) << text;
    EXPECT_NE(said.err.find(words), std::string::npos) << said.err;
  }
}

}  // namespace
}  // namespace headgate::e2e
