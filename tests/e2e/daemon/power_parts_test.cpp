// The real nvidia-smi of Debian 12, unpacked by dev/real-parts, writes settings while headgated holds leases.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "power_daemon.hpp"

namespace headgate::e2e {
namespace {

using nlohmann::json;

class SecondWriter : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: the simulated driver lets only root set GPUs";
    if (::access(NVIDIA_SMI, X_OK) != 0) GTEST_SKIP() << "dev/real-parts has not been run";
  }

  // Runs nvidia-smi with these arguments on the daemon's node.
  static Said smi(const PowerDaemon& power, const std::string& words) {
    return power.daemon().cli().shell(
        "LD_LIBRARY_PATH=$SIM HEADGATE_SIM_DIR=$($H sim path --sim=l40s-x2) " NVIDIA_SMI " " + words);
  }
  static std::string limits(const PowerDaemon& power) {
    return smi(power, "--query-gpu=power.limit --format=csv,noheader,nounits -i 0").out;
  }
  // Takes a lease on GPU 0 that outlasts the test.
  static void lease(const PowerDaemon& power, const std::string& settings) {
    const auto made =
        power.daemon().ask("POST", "/v1/power/leases", R"({"gpus":[0],"settings":)" + settings + R"(,"ttl_s":3600})");
    ASSERT_EQ(made.status, 201) << made.body;
  }
  static std::string end_of(const PowerDaemon& power) {
    const json leases = json::parse(power.daemon().ask("GET", "/v1/power/leases").body, nullptr, false);
    EXPECT_EQ(leases.size(), 1u) << leases;
    return power.daemon().ask("DELETE", "/v1/power/leases/" + leases[0].value("id", "")).status == 200
               ? ""
               : "it cannot be ended";
  }
  static bool told(const PowerDaemon& power, const std::string& words) {
    return eventually([&] {
      const auto events = power.events("power.lease");
      return std::ranges::any_of(events, [&](const std::string& text) { return text.contains(words); });
    });
  }
};

TEST_F(SecondWriter, ALimitThatItSetsIsReportedAndStays) {
  const PowerDaemon power;
  lease(power, R"({"power_limit_mw":200000})");
  EXPECT_EQ(limits(power), "200.00\n");
  const Said set = smi(power, "-i 0 -pl 250");
  EXPECT_EQ(set.status, 0) << set.out << set.err;
  EXPECT_TRUE(told(power, "GPU 0 has power limit 250 W, not 200 W (another program set it)"));
  EXPECT_EQ(limits(power), "250.00\n") << "drift is reported, not undone";
  EXPECT_EQ(end_of(power), "");
  EXPECT_EQ(limits(power), "350.00\n") << "the value of before the lease";
}

TEST_F(SecondWriter, PersistenceAndComputeModeAreSeenToo) {
  const PowerDaemon power;
  lease(power, R"({"persistence":true,"compute_mode":0})");
  EXPECT_EQ(smi(power, "-i 0 -c EXCLUSIVE_PROCESS").status, 0);
  EXPECT_TRUE(told(power, "GPU 0 has compute mode"));
  EXPECT_EQ(smi(power, "-i 0 -pm 0").status, 0);
  EXPECT_TRUE(told(power, "GPU 0 has persistence mode off"));
  EXPECT_EQ(end_of(power), "");
  EXPECT_EQ(smi(power, "--query-gpu=persistence_mode,compute_mode --format=csv,noheader -i 0").out,
            "Enabled, Default\n");
}

TEST_F(SecondWriter, ReapplyRestoresTheLeasesValues) {
  const PowerDaemon power("[power]\ndrift = \"reapply\"\n");
  lease(power, R"({"power_limit_mw":200000,"persistence":true})");
  EXPECT_EQ(smi(power, "-i 0 -pl 250").status, 0);
  EXPECT_EQ(smi(power, "-i 0 -pm 0").status, 0);
  EXPECT_TRUE(eventually([&] { return limits(power) == "200.00\n"; }));
  EXPECT_TRUE(told(power, "set again"));
  EXPECT_TRUE(eventually(
      [&] { return smi(power, "--query-gpu=persistence_mode --format=csv,noheader -i 0").out == "Enabled\n"; }));
}

// NVML does not tell which clocks are locked, so other writers' locks are not seen. The lease's end unlocks them.
TEST_F(SecondWriter, ClocksThatItLocksEndWithTheLease) {
  const PowerDaemon power;
  lease(power, R"({"gpu_clocks_mhz":[500,900]})");
  const Said locked = smi(power, "-i 0 -lgc 600,1200");
  EXPECT_EQ(locked.status, 0) << locked.out << locked.err;
  EXPECT_EQ(end_of(power), "");
  const json truth = json::parse(power.daemon().cli().shell("$H sim truth --sim=l40s-x2 --json").out, nullptr, false);
  std::vector<std::string> settings;
  for (const json& one : truth["nvml_settings"]) settings.push_back(one["function"].get<std::string>());
  ASSERT_GE(settings.size(), 3u) << truth;
  const std::vector<std::string> last(settings.end() - 3, settings.end());
  EXPECT_EQ(last, (std::vector<std::string>{"nvmlDeviceSetGpuLockedClocks", "nvmlDeviceSetGpuLockedClocks",
                                            "nvmlDeviceResetGpuLockedClocks"}));
}

TEST_F(SecondWriter, SettingsOverZeusdsApiAreSeenAndViceVersa) {
  const PowerDaemon power;
  EXPECT_EQ(power.post("/gpu/set_power_limit?gpu_ids=0&power_limit_mw=210000&block=true").status, 200);
  EXPECT_EQ(limits(power), "210.00\n");
  EXPECT_EQ(smi(power, "-i 0 -pl 300").status, 0);
  EXPECT_EQ(power.get("/gpu/get_power_limit?gpu_ids=0").body, R"({"0":{"power_limit_mw":300000}})");
  EXPECT_EQ(smi(power, "-i 0 -pm 0").status, 0);
  EXPECT_EQ(power.get("/gpu/get_persistence_mode?gpu_ids=0").body, R"({"0":{"enabled":false}})");
}

}  // namespace
}  // namespace headgate::e2e
