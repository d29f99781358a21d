// headgated's listener for the zeusd API: which users may set a GPU, and which events that makes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "power_daemon.hpp"

namespace headgate::e2e {
namespace {

using nlohmann::json;

const std::string kSet200 = "/gpu/set_power_limit?gpu_ids=0&power_limit_mw=200000&block=true";

TEST(DaemonPower, TheOwnerOfAllSharesSetsTheGpuWithEvents) {
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

TEST(DaemonPower, AKilledHolderLeavesTheFormerLimit) {
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

TEST(DaemonPower, AKilledDaemonAdoptsALivingHoldersLease) {
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

TEST(DaemonPower, AReleaseEndsPersistenceModeAndClosesTheDriver) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: the simulated driver lets only root set GPUs";
  PowerDaemon power;
  ASSERT_EQ(power.get("/gpu/get_persistence_mode?gpu_ids=0").body, R"({"0":{"enabled":true}})");
  ASSERT_EQ(power.post(kSet200).status, 200);
  const std::string truth = power.daemon().cli().shell("$H sim truth").out;
  EXPECT_NE(truth.find("profile l40s-x2"), std::string::npos) << "of the daemon's node: " << truth;
  ASSERT_EQ(power.daemon().ask("POST", "/v1/gpus/all/release").status, 200);
  EXPECT_EQ(power.get("/gpu/get_persistence_mode?gpu_ids=0").status, 500) << "the driver is let go of";
  const auto settings = power.daemon().cli().shell("$H sim truth --sim=l40s-x2 --json").out;
  EXPECT_NE(settings.find("nvmlDeviceSetPersistenceMode"), std::string::npos) << settings;
  // A daemon that ends meanwhile cannot reach the GPUs, so the settings to restore stay in the file.
  EXPECT_EQ(power.daemon().stop(), 0);
  power.daemon().start();
  EXPECT_EQ(limit_of_gpu_0(power), k200);
}

TEST(DaemonPower, ALimitWithoutPersistenceModeHasAWarning) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: the simulated driver lets only root set GPUs";
  const PowerDaemon power;
  ASSERT_EQ(power.post(kSet200).status, 200);
  EXPECT_TRUE(power.events("power.forgotten").empty());
  ASSERT_EQ(power.post("/gpu/set_persistence_mode?gpu_ids=0&enabled=false&block=true").status, 200);
  ASSERT_EQ(power.post(kSet200).status, 200);
  ASSERT_EQ(power.post(kSet200).status, 200);
  EXPECT_EQ(power.events("power.forgotten").size(), 1u);
}

// Returns the lines of docs/power-control.md that begin with curl, with the test's sockets and holder.
std::vector<std::string> documented_lines(const PowerDaemon& power, pid_t holder) {
  const std::pair<std::string, std::string> places[] = {
      {"/run/zeusd/zeusd.sock", power.socket()},
      {"/run/headgate/control/headgate.sock", power.daemon().socket()},
      {"4711", std::to_string(holder)}};
  std::vector<std::string> lines;
  std::ifstream page(HEADGATE_POWER_PAGE);
  for (std::string line, longer; std::getline(page, line);) {
    if (longer.empty() && !line.starts_with("curl --unix-socket /run/")) continue;
    longer += line;
    if (longer.ends_with('\\')) {
      longer.pop_back();
      continue;
    }
    for (const auto& [from, to] : places)
      if (const auto at = longer.find(from); at != std::string::npos) longer.replace(at, from.size(), to);
    lines.push_back(std::exchange(longer, ""));
  }
  return lines;
}

// Returns a line's output and status: "{...} 200". For a stream, returns only the first event.
std::string answer_to(const PowerDaemon& power, const std::string& line) {
  return power.daemon().cli().shell(line + " -s -w ' %{http_code}' | head -n 2 | tr -d '\\n'").out;
}

json answered(const std::string& answer, const std::string& status) {
  EXPECT_TRUE(answer.ends_with(" " + status)) << answer;
  return json::parse(answer.substr(0, answer.size() - std::min(answer.size(), status.size() + 1)), nullptr, false);
}

TEST(DaemonPower, TheDocumentedCommandsWork) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: the simulated driver lets only root set GPUs";
  const PowerDaemon power;
  Program holder({"/bin/sleep", "600"}, {});
  const auto lines = documented_lines(power, holder.pid());
  ASSERT_EQ(lines.size(), 5u);

  json found = answered(answer_to(power, lines[0]), "200");
  ASSERT_EQ(found["gpus"].size(), 2u) << found;
  for (const int index : {0, 1}) {
    const json& gpu = found["gpus"][static_cast<std::size_t>(index)];
    EXPECT_EQ(gpu["id"], index);
    EXPECT_EQ(gpu["name"], "NVIDIA L40S");
    EXPECT_EQ(gpu["cumulative_energy_available"], true);
    EXPECT_TRUE(gpu["uuid"].get<std::string>().starts_with("GPU-"));
    EXPECT_EQ(gpu["pci_address"].get<std::string>().size(), std::string("0000:00:00.0").size());
  }
  EXPECT_EQ(found["enabled_api_groups"], json::parse(R"(["gpu-control","gpu-read","cpu-read"])"));
  EXPECT_EQ(found["auth_required"], false);

  EXPECT_EQ(answer_to(power, lines[1]), " 200");
  EXPECT_EQ(answer_to(power, lines[2]), k200 + " 200") << "what the line before has set";

  const std::string event = answer_to(power, lines[3]);
  ASSERT_TRUE(event.starts_with("data: ")) << event;
  const json sample = json::parse(event.substr(6), nullptr, false);
  EXPECT_EQ(sample.size(), 3u) << event;
  EXPECT_EQ(sample["gpu_id"], 0);
  EXPECT_EQ(sample["power_mw"], 34'000) << "an idle L40S of the simulator";
  EXPECT_GT(sample["timestamp_ms"], 1'700'000'000'000);

  // A setting through zeusd's API persists, so it is the limit that the holder finds.
  ASSERT_EQ(power.post("/gpu/set_power_limit?gpu_ids=0&power_limit_mw=350000&block=true").status, 200);
  const json lease = answered(answer_to(power, lines[4]), "201");
  const std::string uuid = found["gpus"][0]["uuid"];
  EXPECT_EQ(lease["gpus"], json::array({uuid}));
  EXPECT_EQ(lease["saved"], (json{{uuid, {{"power_limit_mw", 350'000}}}}));
  EXPECT_EQ(lease["holder_pid"], holder.pid());
  EXPECT_EQ(lease["ttl_s"], 0);
  EXPECT_EQ(limit_of_gpu_0(power), k200) << "the lease's";
  holder.kill_now();
  holder.wait();
  EXPECT_TRUE(eventually([&] { return limit_of_gpu_0(power) == k350; }));
  EXPECT_EQ(power.daemon().ask("GET", "/v1/power/leases").body, "[]\n");
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
