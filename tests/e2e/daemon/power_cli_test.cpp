// `headgate power` as users and scripts call it.
#include <gtest/gtest.h>
#include <unistd.h>

#include "power_daemon.hpp"
#include "terminal.hpp"

namespace headgate::e2e {
namespace {

using nlohmann::json;

class PowerCli : public CliTerminal {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: the simulated driver lets only root set GPUs";
  }
  static Said power(const PowerDaemon& daemon, const std::string& words) {
    return daemon.daemon().cli().shell("$H power " + words);
  }
  static json power_json(const PowerDaemon& daemon, const std::string& words) {
    const Said said = power(daemon, words + " --json");
    EXPECT_EQ(said.status, 0) << words << said.err;
    return json::parse(said.out, nullptr, false);
  }
  // Returns a GPU's limit in watts, read through zeusd's API.
  static int limit_w(const PowerDaemon& daemon, int gpu = 0) {
    const std::string index = std::to_string(gpu);
    const json read = json::parse(daemon.get("/gpu/get_power_limit?gpu_ids=" + index).body, nullptr, false);
    return read.value(index, json::object()).value("power_limit_mw", 0) / 1000;
  }
  static std::string only_lease(const PowerDaemon& daemon) {
    const json leases = json::parse(daemon.daemon().ask("GET", "/v1/power/leases").body, nullptr, false);
    EXPECT_EQ(leases.size(), 1u) << leases;
    return leases.empty() ? "" : leases[0].value("id", "");
  }
};

TEST_F(PowerCli, SetsShowsAndResets) {
  const PowerDaemon daemon;
  const Said set = power(daemon, "set 200W 210-1200MHz --gpu 0");
  EXPECT_EQ(set.status, 0) << set.err;
  EXPECT_EQ(set.out,
            "SIMULATED\n"
            "GPU       CONTROL       FROM               TO\n"
            "0 (L40S)  power limit  350 W            200 W\n"
            "0 (L40S)  GPU clocks    none  210 to 1200 MHz\n");
  EXPECT_EQ(limit_w(daemon), 200);
  EXPECT_EQ(limit_w(daemon, 1), 350);
  const Said status = power(daemon, "status");
  EXPECT_EQ(status.status, 0) << status.err;
  EXPECT_TRUE(status.out.contains("210 to 1200 MHz  on")) << status.out;
  const json state = power_json(daemon, "status");
  EXPECT_EQ(state["schema"], "headgate.power/v1");
  EXPECT_EQ(state["simulated"], true);
  EXPECT_EQ(state["power"]["gpus"][0]["requested_limit_mw"], 200'000);
  EXPECT_TRUE(power(daemon, "status -o csv").out.contains(",index,uuid,model,power_mw,"));
  const Said reset = power(daemon, "reset --gpu all");
  EXPECT_EQ(reset.status, 0) << reset.err;
  EXPECT_EQ(limit_w(daemon), 350);
  EXPECT_TRUE(power(daemon, "reset --gpu all").out.ends_with("nothing differs from what is set\n"));
}

TEST_F(PowerCli, PercentagesAreOfTheMaximumAndBudgetsAreDivided) {
  const PowerDaemon daemon;
  EXPECT_EQ(power(daemon, "set 80% --gpu 1").status, 0);
  EXPECT_EQ(limit_w(daemon, 1), 280);
  const Said budget = power(daemon, "set --budget 450W --weights 2,1 --gpu 0,1");
  EXPECT_EQ(budget.status, 0) << budget.err;
  EXPECT_EQ(limit_w(daemon, 0), 300);
  EXPECT_EQ(limit_w(daemon, 1), 150);
}

TEST_F(PowerCli, ADryRunSetsNothing) {
  const PowerDaemon daemon;
  for (const char* words : {"set 200W --gpu 0 --dry-run", "set 200W --gpu 0 -n --for 2h"}) {
    const Said said = power(daemon, words);
    EXPECT_EQ(said.status, 0) << said.err;
    EXPECT_TRUE(said.out.contains("350 W  200 W\n")) << said.out;
    EXPECT_TRUE(said.out.ends_with("nothing was set: --dry-run\n")) << said.out;
  }
  EXPECT_EQ(limit_w(daemon), 350);
  EXPECT_EQ(daemon.daemon().ask("GET", "/v1/power/leases").body, "[]\n");
}

TEST_F(PowerCli, MistakesChangeNothingAndNameWhatIsAccepted) {
  const PowerDaemon daemon;
  struct Mistake {
    const char* words;
    int status;
    const char* expected;
  };
  const Mistake mistakes[] = {
      {"set 200W", 2, "no GPU was named, and there are 2"},
      {"set 200W --gpu 7", 2, "GPUs here: 0 (GPU-"},
      {"set 200W --gpu auto", 2, "names no GPU"},
      {"set 400W --gpu 0", 2, "100 W to 350 W"},
      {"set 20% --gpu 0", 2, "100 W to 350 W"},
      {"set 900-500MHz --gpu 0", 2, ""},
      {"set 9999999MHz --gpu 0", 2, ""},
      {"set --compute-mode fast --gpu 0", 2, "exclusive process"},
      {"apply nothing --gpu 0", 2, "nothing"},
      {"end 0000", 2, "no lease '0000'"},
      {"keep 0000", 2, "no lease '0000'"},
  };
  for (const auto& [words, status, expected] : mistakes) {
    const Said said = power(daemon, words);
    EXPECT_EQ(said.status, status) << words << said.out << said.err;
    EXPECT_TRUE(said.err.contains(expected)) << words << said.err;
  }
  EXPECT_EQ(limit_w(daemon), 350);
}

TEST_F(PowerCli, ALeaseHoldsItsControlUntilItEnds) {
  const PowerDaemon daemon;
  const Said set = power(daemon, "set 200W --gpu 0 --for 2h");
  EXPECT_EQ(set.status, 0) << set.err;
  const std::string id = only_lease(daemon);
  EXPECT_TRUE(set.out.contains("lease " + id + " holds them; it ends in 1h59m\n") ||
              set.out.contains("lease " + id + " holds them; it ends in 2h"))
      << set.out;
  EXPECT_TRUE(power(daemon, "status").out.contains("GPU 0: power limit: held by lease " + id));
  const Said second = power(daemon, "set 300W --gpu 0 --for 1h");
  EXPECT_EQ(second.status, 1);
  EXPECT_TRUE(second.err.contains("lease " + id) && second.err.contains("headgate power end " + id)) << second.err;
  EXPECT_EQ(limit_w(daemon), 200);
  EXPECT_EQ(power(daemon, "end " + id).out, "the former values are back\n");
  EXPECT_EQ(limit_w(daemon), 350);
}

TEST_F(PowerCli, ALeaseOfAProcessEndsWithIt) {
  const PowerDaemon daemon;
  Program holder({"/bin/sleep", "600"}, {});
  const Said set = power(daemon, "set 200W --gpu 0 --pid " + std::to_string(holder.pid()));
  EXPECT_EQ(set.status, 0) << set.err;
  EXPECT_TRUE(set.out.contains("while process " + std::to_string(holder.pid()) + " lives\n")) << set.out;
  EXPECT_EQ(limit_w(daemon), 200);
  holder.kill_now();
  holder.wait();
  EXPECT_TRUE(eventually([&] { return limit_w(daemon) == 350; }));
}

TEST_F(PowerCli, AnUnconfirmedSettingIsRestored) {
  const PowerDaemon daemon;
  const Said set = power(daemon, "set 200W --gpu 0 --confirm 1s");
  EXPECT_EQ(set.status, 0) << set.err;
  EXPECT_TRUE(set.out.contains("not confirmed: the former values are back in 1 s, unless: headgate power keep "))
      << set.out;
  EXPECT_TRUE(eventually([&] { return limit_w(daemon) == 350; }));
  EXPECT_EQ(power(daemon, "set 210W --gpu 0 --confirm 1h").status, 0);
  EXPECT_EQ(power(daemon, "keep " + only_lease(daemon)).out, "the settings stay\n");
  EXPECT_EQ(daemon.daemon().ask("GET", "/v1/power/leases").body, "[]\n");
  EXPECT_EQ(limit_w(daemon), 210);
}

TEST_F(PowerCli, AsksOnATerminal) {
  CliTerminal::SetUp();
  if (IsSkipped()) return;
  const PowerDaemon daemon;
  Terminal terminal(daemon.daemon().cli(), kSmall);
  terminal.type("$H power set 200W --gpu 0 --confirm 10m; echo status=$?\n");
  ASSERT_TRUE(terminal.await("They are put back in 600 s. [y/N] ")) << terminal.seen();
  EXPECT_EQ(limit_w(daemon), 200);
  terminal.type("n\n");
  EXPECT_TRUE(terminal.await("not confirmed: the former values are back")) << terminal.seen();
  EXPECT_TRUE(terminal.await("status=1"));
  EXPECT_EQ(limit_w(daemon), 350);
  terminal.type("$H power set 210W --gpu 0 --confirm 10m; echo status=$?\n");
  ASSERT_TRUE(terminal.await("[y/N] ")) << terminal.seen();
  terminal.type("y\n");
  EXPECT_TRUE(terminal.await("the settings stay")) << terminal.seen();
  EXPECT_TRUE(terminal.await("status=0"));
  EXPECT_EQ(limit_w(daemon), 210);
  terminal.type("$H power set 220W --gpu 0 --confirm 1s; echo status=$?\n");
  EXPECT_TRUE(terminal.await("not confirmed in time: the former values are back")) << terminal.seen();
  EXPECT_TRUE(terminal.await("status=1"));
  EXPECT_TRUE(eventually([&] { return limit_w(daemon) == 210; }));
}

TEST_F(PowerCli, ProfilesAreListedAndApplied) {
  const PowerDaemon daemon(
      "[power]\nat_start = \"site\"\n[power.profile.site]\npower_limit = \"300W\"\n"
      "[power.profile.quiet]\npower_limit = \"60%\"\ngpu_clocks = \"1200MHz\"\n");
  EXPECT_TRUE(eventually([&] { return limit_w(daemon) == 300; })) << "at_start";
  const Said profiles = power(daemon, "profiles");
  EXPECT_EQ(profiles.status, 0) << profiles.err;
  EXPECT_TRUE(profiles.out.contains("quiet    power limit 60%, GPU clocks 1200MHz")) << profiles.out;
  EXPECT_EQ(power(daemon, "apply quiet --gpu all").status, 0);
  EXPECT_EQ(limit_w(daemon), 210);
  EXPECT_EQ(limit_w(daemon, 1), 210);
  EXPECT_EQ(power(daemon, "reset --gpu 0").status, 0);
  EXPECT_EQ(limit_w(daemon), 300) << "the site's own";
}

TEST_F(PowerCli, WatchRepeats) {
  const PowerDaemon daemon;
  const Said said = daemon.daemon().cli().shell("$H power watch -o jsonl --interval 50ms | head -n 5");
  EXPECT_EQ(std::ranges::count(said.out, '\n'), 5) << said.out;
  EXPECT_TRUE(said.out.contains(R"("schema":"headgate.power_gpu/v1")")) << said.out;
}

TEST_F(PowerCli, NamesTheStartCommandWithoutADaemon) {
  const Cli cli;
  for (const char* words : {"status", "watch", "set 200W", "reset", "profiles"}) {
    const Said said = cli.shell(std::string("$H power ") + words);
    EXPECT_EQ(said.status, 3) << words;
    EXPECT_TRUE(said.err.contains("headgated does not run here")) << said.err;
  }
}

}  // namespace
}  // namespace headgate::e2e
