// /v1/power of the built daemon on the simulated node: settings, profiles, leases and their end.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "daemon_program.hpp"

namespace headgate::e2e {
namespace {

using nlohmann::json;

class PowerApi : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: the simulated driver lets only root set GPUs";
  }
  void start(const std::string& configuration = "") {
    std::ofstream(directory_.path() + "/config.toml") << configuration;
    std::vector<std::string> words = {"--sim=l40s-x2", "--config", directory_.path() + "/config.toml"};
    if (!state_.empty()) words.insert(words.end(), {"--state", state_});
    daemon_.emplace(words);
  }
  struct Answer {
    int status = -1;
    json body;
  };
  [[nodiscard]] Answer ask(const std::string& method, const std::string& target, const std::string& body = "") const {
    const auto reply = daemon_->ask(method, target, body);
    return {reply.status, json::parse(reply.body, nullptr, false)};
  }
  [[nodiscard]] json gpu(std::uint32_t index) const { return ask("GET", "/v1/power").body["gpus"][index]; }
  [[nodiscard]] std::uint64_t limit(std::uint32_t index) const {
    return gpu(index).value("requested_limit_mw", std::uint64_t{0});
  }

  Directory directory_;
  std::string state_;  // empty: the default directory
  std::optional<Daemon> daemon_;
};

TEST_F(PowerApi, AnswersWithoutTheListenerOfZeusd) {
  start();
  const json first = gpu(0);
  EXPECT_EQ(first["model"], "NVIDIA L40S");
  EXPECT_EQ(first["requested_limit_mw"], 350'000);
  EXPECT_EQ(first["enforced_limit_mw"], 350'000);
  EXPECT_EQ(first["min_limit_mw"], 100'000);
  EXPECT_EQ(first["max_limit_mw"], 350'000);
  EXPECT_EQ(first["default_limit_mw"], 350'000);
  EXPECT_EQ(first["persistence"], true);
  EXPECT_EQ(first["compute_mode"], "default");
  EXPECT_TRUE(first["gpu_clocks_mhz"].is_null());
  EXPECT_EQ(first["leases"], json::array());
}

TEST_F(PowerApi, SettingsApplyToAllGpusAndReportChanges) {
  start();
  const std::string eighty = R"({"gpus":"all","settings":{"power_limit":"80%","gpu_clocks":"500-900MHz"})";
  const auto dry = ask("POST", "/v1/power/settings", eighty + R"(,"dry_run":true})");
  ASSERT_EQ(dry.status, 200) << dry.body;
  EXPECT_EQ(dry.body["gpus"][1]["changes"][0], (json{{"control", "power limit"}, {"from", "350 W"}, {"to", "280 W"}}));
  EXPECT_EQ(limit(1), 350'000u);
  const auto done = ask("POST", "/v1/power/settings", eighty + "}");
  ASSERT_EQ(done.status, 200) << done.body;
  EXPECT_EQ(done.body["gpus"], dry.body["gpus"]) << "as the dry run told";
  EXPECT_EQ(limit(0), 280'000u);
  EXPECT_EQ(gpu(1)["gpu_clocks_mhz"], (json{500, 900}));
  const auto budget =
      ask("POST", "/v1/power/settings", R"({"gpus":[1,0],"settings":{"budget":"400W","weights":[3,1]}})");
  ASSERT_EQ(budget.status, 200) << budget.body;
  EXPECT_EQ(limit(0), 100'000u);
  EXPECT_EQ(limit(1), 300'000u);
  const auto reset = ask("POST", "/v1/power/reset", R"({"gpus":"all"})");
  ASSERT_EQ(reset.status, 200) << reset.body;
  EXPECT_EQ(limit(0), 350'000u);
  EXPECT_TRUE(gpu(1)["gpu_clocks_mhz"].is_null());
}

TEST_F(PowerApi, AValueOutOfRangeChangesNothing) {
  start();
  const std::pair<const char*, const char*> bad[] = {
      {R"({"gpus":[0,1],"settings":{"power_limit":"99W"}})", "accepted: 100 W to 350 W"},
      {R"({"gpus":[0,1],"settings":{"power_limit_mw":4294967295}})", "accepted: 100 W to 350 W"},
      {R"({"gpus":[0,1],"settings":{"power_limit_mw":4294967296}})", "accepted: milliwatts"},
      {R"({"gpus":[0,1],"settings":{"gpu_clocks":"9000-9001MHz"}})", "at most 2520 MHz"},
      {R"({"gpus":[0,1],"settings":{"gpu_clocks":"900-500MHz"}})", "accepted: 1200MHz"},
      {R"({"gpus":[0,1],"settings":{"budget":"150W"}})", "accepted: at least 200 W"},
  };
  for (const auto& [body, hint] : bad) {
    const auto refused = ask("POST", "/v1/power/settings", body);
    EXPECT_EQ(refused.status, 400) << body;
    EXPECT_NE(refused.body.value("hint", "").find(hint), std::string::npos) << refused.body;
    EXPECT_EQ(limit(0), 350'000u) << body;
    EXPECT_EQ(limit(1), 350'000u) << body;
  }
  const auto unknown = ask("POST", "/v1/power/settings", R"({"gpus":[0,2],"settings":{"power_limit":"200W"}})");
  EXPECT_EQ(unknown.status, 404) << unknown.body;
  EXPECT_EQ(limit(0), 350'000u) << "no GPU of a list with an unknown one is set";
}

TEST_F(PowerApi, ALeasedControlIsRefusedWithItsHolder) {
  start();
  Program holder({"/bin/sleep", "600"}, {});
  const std::string pid = std::to_string(holder.pid());
  const std::string body = R"({"gpus":[0],"settings":{"power_limit":"200W"},"holder_pid":)" + pid;
  const auto dry = ask("POST", "/v1/power/leases", body + R"(,"dry_run":true})");
  EXPECT_EQ(dry.status, 200) << dry.body;
  EXPECT_EQ(ask("GET", "/v1/power/leases").body, json::array());
  const auto made = ask("POST", "/v1/power/leases", body + "}");
  ASSERT_EQ(made.status, 201) << made.body;
  const json on = gpu(0)["leases"];
  ASSERT_EQ(on.size(), 1u);
  EXPECT_EQ(on[0]["controls"], json{"power limit"});
  EXPECT_EQ(on[0]["holder"], "lease " + made.body["id"].get<std::string>() + " of uid 0 (process " + pid + ")");
  const auto second = ask("POST", "/v1/power/leases", R"({"gpus":"all","settings":{"power_limit":"300W"},"ttl_s":60})");
  EXPECT_EQ(second.status, 409) << second.body;
  EXPECT_NE(second.body.value("message", "").find("process " + pid), std::string::npos) << second.body;
  EXPECT_EQ(limit(1), 350'000u) << "not even the free GPU";
  holder.kill_now();
  holder.wait();
  EXPECT_TRUE(eventually([&] { return limit(0) == 350'000; }));
}

TEST_F(PowerApi, AKeptLeaseIsASetting) {
  start();
  const auto made = ask("POST", "/v1/power/leases", R"({"gpus":[0],"settings":{"power_limit":"200W"},"ttl_s":60})");
  ASSERT_EQ(made.status, 201) << made.body;
  const std::string path = "/v1/power/leases/" + made.body["id"].get<std::string>();
  EXPECT_EQ(ask("POST", path + "/keep").status, 200);
  EXPECT_EQ(ask("DELETE", path).status, 404);
  EXPECT_EQ(limit(0), 200'000u);
}

TEST_F(PowerApi, TheSitesProfileAppliesAtTheStartAndByAReset) {
  start(
      "[power]\nat_start = 'site'\n[power.profile.site]\npower_limit = '300W'\n"
      "[power.profile.night]\nbudget = '400W'\nweights = [1, 3]\n");
  EXPECT_TRUE(eventually([&] { return limit(0) == 300'000 && limit(1) == 300'000; }));
  const auto profiles = ask("GET", "/v1/power/profiles");
  ASSERT_EQ(profiles.body.size(), 2u) << profiles.body;
  EXPECT_EQ(ask("GET", "/v1/power").body["at_start"], "site");
  ASSERT_EQ(ask("POST", "/v1/power/settings", R"({"gpus":"all","profile":"night"})").status, 200);
  EXPECT_EQ(limit(0), 100'000u);
  EXPECT_EQ(limit(1), 300'000u);
  ASSERT_EQ(ask("POST", "/v1/power/reset", R"({"gpus":[0]})").status, 200);
  EXPECT_EQ(limit(0), 300'000u) << "the site's, not the driver's default";
  EXPECT_EQ(ask("POST", "/v1/power/settings", R"({"gpus":"all","profile":"day"})").status, 404);
  // The next start applies them again, but leased settings stay with the lease's holder.
  Program holder({"/bin/sleep", "600"}, {});
  const std::string lease = R"({"gpus":[0],"settings":{"power_limit":"200W"},"holder_pid":)";
  ASSERT_EQ(ask("POST", "/v1/power/leases", lease + std::to_string(holder.pid()) + "}").status, 201);
  daemon_->kill_and_wait();
  daemon_->start();
  EXPECT_TRUE(eventually([&] { return limit(0) == 200'000; }));
  holder.kill_now();
  holder.wait();
  EXPECT_TRUE(eventually([&] { return limit(0) == 300'000; }));
}

TEST_F(PowerApi, AMissingProfileEndsTheStart) {
  std::ofstream(directory_.path() + "/c.toml") << "[power]\nat_start = 'x'\n";
  const Cli cli;
  const Said said =
      cli.shell(std::string(HEADGATE_DAEMON) + " --check --sim=tiny --config " + directory_.path() + "/c.toml");
  EXPECT_NE(said.status, 0);
  EXPECT_NE(said.err.find("power.at_start = 'x' names no profile"), std::string::npos) << said.err;
}

TEST_F(PowerApi, ADamagedLeaseFileIsPutAside) {
  std::ofstream(directory_.path() + "/power-leases.json") << "[{\"id\":1}]";
  state_ = directory_.path();
  start();
  EXPECT_TRUE(std::filesystem::exists(state_ + "/power-leases.json.damaged"));
  EXPECT_NE(daemon_->cli().shell("$H events -o jsonl").out.find("power.leases_damaged"), std::string::npos);
  EXPECT_EQ(ask("POST", "/v1/power/leases", R"({"gpus":[0],"settings":{"power_limit":"200W"},"ttl_s":60})").status,
            201);
}

TEST_F(PowerApi, RootOfAContainerOwnsNoneOfRootsShares) {
  const std::string socket = directory_.path() + "/z.sock";
  start("[zeusd]\nsocket = '" + socket + "'\n");
  ASSERT_EQ(daemon_->cli().shell("$H share create a --gpu 0 --mem 1GiB").status, 0);
  const std::string set = "curl -s -o /dev/null -w '%{http_code}' -X POST --unix-socket " + socket +
                          " 'http://localhost/gpu/set_power_limit?gpu_ids=0&power_limit_mw=200000&block=true'";
  EXPECT_EQ(daemon_->cli().shell("unshare --pid --fork " + set).out, "403");
  EXPECT_EQ(limit(0), 350'000u);
  EXPECT_EQ(daemon_->cli().shell(set).out, "200");
}

// One shell line is one process; curl is its child.
TEST_F(PowerApi, ASessionOverZeusdsSocketEndsWithItsProcess) {
  const std::string socket = directory_.path() + "/z.sock";
  start("[zeusd]\nsession = 'process'\nsocket = '" + socket + "'\n");
  const std::string set = "curl -s -o /dev/null -w '%{http_code}' -X POST --unix-socket " + socket +
                          " 'http://localhost/gpu/set_power_limit?gpu_ids=0&power_limit_mw=200000&block=true'";
  EXPECT_EQ(daemon_->cli().shell(set).out, "200");
  EXPECT_TRUE(eventually([&] { return limit(0) == 350'000 && ask("GET", "/v1/power/leases").body.empty(); }));
}

// The shell leads a session, like a login shell; curl is its child and ends at once.
TEST_F(PowerApi, ALoginSessionOverZeusdsSocketEndsWithItsLeader) {
  const std::string socket = directory_.path() + "/z.sock";
  start("[zeusd]\nsession = 'login'\nsocket = '" + socket + "'\n");
  const std::string answer = directory_.path() + "/answer";
  ASSERT_EQ(::mkfifo((directory_.path() + "/end").c_str(), 0600), 0);
  Program shell({"/usr/bin/setsid", "--wait", "/bin/sh", "-c",
                 "curl -s -o /dev/null -w '%{http_code}' -X POST --unix-socket " + socket +
                     " 'http://localhost/gpu/set_power_limit?gpu_ids=0&power_limit_mw=200000&block=true' >" + answer +
                     ".part; mv " + answer + ".part " + answer + "; read end <" + directory_.path() + "/end"},
                {});
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(answer); }));
  std::string status;
  std::ifstream(answer) >> status;
  EXPECT_EQ(status, "200");
  EXPECT_TRUE(eventually([&] { return limit(0) == 200'000; }));
  EXPECT_EQ(ask("GET", "/v1/power/leases").body.size(), 1u) << "curl has ended, its session has not";
  std::ofstream(directory_.path() + "/end") << "now\n";
  shell.wait();
  EXPECT_TRUE(eventually([&] { return limit(0) == 350'000 && ask("GET", "/v1/power/leases").body.empty(); }));
}

}  // namespace
}  // namespace headgate::e2e
