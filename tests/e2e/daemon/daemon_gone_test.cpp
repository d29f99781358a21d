// What shares get of a GPU while no daemon runs: the part that the daemon left in their pages, which prices launches
// soon after its end. The next daemon restores turns.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "daemon_program.hpp"
#include "guest/ledger/pages.hpp"
#include "sim/truth.hpp"

namespace headgate::e2e {
namespace {

constexpr std::array kShares = {"half", "a", "b"};

class DaemonGone : public ::testing::Test {
 protected:
  void SetUp() override {
    for (std::size_t i = 0; i < kShares.size(); ++i) {
      const std::string words = i == 0 ? " --compute 50%" : "";
      ASSERT_EQ(daemon_.cli().shell(std::string("$H share create ") + kShares[i] + " --mem 4GiB" + words).status, 0);
      const auto bad =
          ledger::open_share(daemon_.cli().runtime().c_str(), kShares[i], ledger::Access::owner, pages_[i]);
      ASSERT_FALSE(bad) << static_cast<int>(bad.error);
    }
  }
  void TearDown() override {
    for (auto& pages : pages_) ledger::close_pages(pages);
  }

  [[nodiscard]] std::unique_ptr<Program> start(const std::string& share) const {
    const std::string& runtime = daemon_.cli().runtime();
    return std::make_unique<Program>(
        std::vector<std::string>{HEADGATE_LOAD, "--duration=60s", "--no-idle-list", "--kernels=1ms", "--sync=depth:8"},
        std::map<std::string, std::string>{{"HEADGATE_SHARE", share},
                                           {"HEADGATE_SHARE_DIR", runtime + "/shares/" + share},
                                           {"HEADGATE_RUNTIME_DIR", runtime},
                                           {"HEADGATE_SIM_DIR", daemon_.cli().directory() + "/node"},
                                           {"HEADGATE_LOG", "warn"},
                                           {"LD_LIBRARY_PATH", SIMULATOR_DIR},
                                           {"LD_PRELOAD", HEADGATE_LIMITER}});
  }
  [[nodiscard]] std::uint32_t left_to(std::size_t share) const {
    return pages_[share].policy->devices[0].compute_unattended_ppm.load();
  }
  [[nodiscard]] std::uint64_t priced_at(std::size_t share) const {
    return pages_[share].usage->compute[0].priced_ppm.load();
  }
  // Without a daemon: by its part, and by its ceiling.
  [[nodiscard]] std::uint64_t price_of(std::size_t share) const {
    return std::min(left_to(share), pages_[share].policy->devices[0].compute_ceiling_ppm.load());
  }
  [[nodiscard]] std::uint64_t held_ns(std::size_t share) const {
    return pages_[share].usage->compute[0].held_ns.load();
  }
  void print_split(const char* when, const std::vector<std::unique_ptr<Program>>& programs) const {
    const auto look = [&] {
      const auto truth = sim::read_truth(daemon_.cli().directory() + "/node");
      std::vector<double> held;
      if (!truth) return held;
      held.push_back(static_cast<double>(truth->now_ns));
      for (const auto& program : programs) {
        held.push_back(0);
        for (const sim::ProcessTruth& process : truth->devices.at(0).processes)
          if (process.pid == program->pid()) held.back() += static_cast<double>(process.held_ns);
      }
      return held;
    };
    const auto before = look();
    rest_ms(2'000);
    const auto after = look();
    std::printf("%s:", when);
    for (std::size_t i = 1; i < std::min(before.size(), after.size()); ++i)
      std::printf(" %.1f", 100 * (after[i] - before[i]) / (after[0] - before[0]));
    std::printf(" %%\n");
  }

  Daemon daemon_;
  std::array<ledger::SharePages, kShares.size()> pages_;
};

TEST_F(DaemonGone, SharesKeepThePartsThatTheDaemonLeft) {
  std::vector<std::unique_ptr<Program>> programs;
  for (const char* share : kShares) programs.push_back(start(share));
  for (std::size_t i = 0; i < kShares.size(); ++i)
    ASSERT_TRUE(eventually([&] { return held_ns(i) > 20'000'000; })) << kShares[i];
  ASSERT_TRUE(eventually([&] { return left_to(1) == 250'000 && left_to(2) == 250'000; })) << left_to(1);
  EXPECT_EQ(left_to(0), 500'000u);
  EXPECT_GT(priced_at(1), ledger::kWholeGpu) << "no ceiling holds it while there are turns";
  print_split("with a daemon", programs);

  daemon_.kill_and_wait();
  for (std::size_t i = 0; i < kShares.size(); ++i)
    EXPECT_TRUE(eventually([&] { return priced_at(i) == price_of(i); })) << kShares[i] << ": " << priced_at(i);
  print_split("without", programs);
  for (auto& program : programs)
    EXPECT_NE(program->errors_so_far().find("of its time until it decides again"), std::string::npos);

  daemon_.start();
  for (const std::size_t i : {1u, 2u})
    EXPECT_TRUE(eventually([&] { return priced_at(i) > ledger::kWholeGpu; })) << kShares[i] << ": " << priced_at(i);
  print_split("with the next", programs);
}

TEST_F(DaemonGone, AShareWithoutProgramsKeepsOnlyItsPromise) {
  const auto program = start("a");
  ASSERT_TRUE(eventually([&] { return left_to(1) == 500'000; })) << left_to(1);
  EXPECT_EQ(left_to(0), 500'000u);
  EXPECT_EQ(left_to(2), 1'000u);
  const auto other = start("b");
  ASSERT_TRUE(eventually([&] { return left_to(1) == 250'000 && left_to(2) == 250'000; })) << left_to(2);
  ASSERT_EQ(daemon_.cli().shell("$H share pause b").status, 0);
  EXPECT_EQ(left_to(1), 500'000u);
  ASSERT_EQ(daemon_.cli().shell("$H share resume b").status, 0);
  EXPECT_EQ(left_to(1), 250'000u);
  ASSERT_EQ(daemon_.cli().shell("$H share set half --compute 20%").status, 0);
  EXPECT_EQ(left_to(0), 200'000u);
  EXPECT_EQ(left_to(1), 400'000u);
  ASSERT_EQ(daemon_.cli().shell("$H share rm half").status, 0);
  EXPECT_EQ(left_to(1), 500'000u);
}

}  // namespace
}  // namespace headgate::e2e
