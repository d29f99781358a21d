#include "api/figures.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace headgate::api {
namespace {

snapshot::Snapshot at(std::uint64_t seconds, std::vector<std::string> reasons) {
  snapshot::Snapshot s;
  s.taken_ns = seconds * 1'000'000'000;
  s.gpus.resize(1);
  s.gpus[0].uuid = "GPU-1";
  s.gpus[0].throttle_reasons = std::move(reasons);
  return s;
}

TEST(Tally, ThrottledTimeIsSummedByReason) {
  Tally tally;
  tally.look(at(10, {"power cap"}));  // unknown since when
  tally.look(at(11, {"power cap"}));
  tally.look(at(12, {}));
  tally.look(at(14, {"power cap", "hardware thermal"}));
  const auto sums = tally.sums().throttled_seconds;
  EXPECT_DOUBLE_EQ(sums.at({"GPU-1", "power cap"}), 3);
  EXPECT_DOUBLE_EQ(sums.at({"GPU-1", "hardware thermal"}), 2);
}

TEST(Tally, AGapInSnapshotsIsNotThrottledTime) {
  Tally tally;
  tally.look(at(10, {"power cap"}));
  tally.look(at(3610, {"power cap"}));
  EXPECT_DOUBLE_EQ(tally.sums().throttled_seconds.at({"GPU-1", "power cap"}), Tally::kLongestGap);
}

TEST(Tally, AStaleSnapshotAddsNothing) {
  Tally tally;
  tally.look(at(10, {}));
  auto released = at(11, {"power cap"});
  released.node.nvml_released = true;
  tally.look(released);
  tally.look(at(11, {"power cap"}));
  tally.look(at(9, {"power cap"}));
  EXPECT_TRUE(tally.sums().throttled_seconds.empty());
}

snapshot::Snapshot powered(double seconds, std::uint64_t joules, std::map<std::string, double> held_s) {
  snapshot::Snapshot s = at(0, {});
  s.taken_ns = static_cast<std::uint64_t>(seconds * 1e9);
  s.gpus[0].energy_mj = joules * 1000;
  for (const auto& [name, held] : held_s) {
    auto& share = s.shares.emplace_back();
    share.name = name;
    share.devices.resize(1);
    share.devices[0].uuid = "GPU-1";
    share.devices[0].held_ns = static_cast<std::uint64_t>(held * 1e9);
  }
  return s;
}

TEST(Tally, AShareGetsEnergyByTimeAndIdleEnergyIsUnassigned) {
  Tally tally;
  tally.look(powered(10, 5000, {{"a", 100}, {"b", 7}}));
  tally.look(powered(11, 5100, {{"a", 100.5}, {"b", 7}}));
  tally.look(powered(11.1, 5110, {{"a", 100.6}, {"b", 7}}));  // below kMinAccounted
  tally.look(powered(12, 5200, {{"a", 101}, {"b", 7.5}}));
  tally.look(powered(13, 5300, {{"a", 102}, {"b", 8.5}}));  // both at once
  using Key = std::tuple<std::string, std::string, std::string>;
  auto sums = tally.sums().share_energy;
  EXPECT_DOUBLE_EQ(sums.at(Key("a", "GPU-1", "exclusive")), 50);
  EXPECT_DOUBLE_EQ(sums.at(Key("a", "GPU-1", "model")), 50 + 50);
  EXPECT_DOUBLE_EQ(sums.at(Key("b", "GPU-1", "model")), 50 + 50);
  tally.look(powered(14, 10, {{"a", 103}}));  // driver reloaded, so its counter restarted; b has ended
  EXPECT_FALSE(tally.sums().share_energy.contains(Key("b", "GPU-1", "model")));
  auto outsider = powered(15, 110, {{"a", 1e9}});  // a forged time cannot be charged more than the whole
  outsider.processes.emplace_back().devices.resize(1);
  outsider.processes[0].devices[0].uuid = "GPU-1";
  tally.look(outsider);
  sums = tally.sums().share_energy;
  EXPECT_DOUBLE_EQ(sums.at(Key("a", "GPU-1", "exclusive")), 50);
  EXPECT_DOUBLE_EQ(sums.at(Key("a", "GPU-1", "model")), 200);
}

// A power cap halves the power between two snapshots. Charged plus unattributed energy must equal the counter.
TEST(Tally, EnergyOfSharesAndRestAddsUpToTheCounter) {
  Tally tally;
  double a = 0, b = 0;
  std::uint64_t joules = 1000;
  for (int second = 1; second <= 600; ++second) {
    tally.look(powered(second, joules, {{"a", a}, {"b", b}}));
    joules += second < 300 ? 350 : 175;
    a += second % 3 == 0 ? 0.2 : 0.7;
    b += second % 5 == 0 ? 0.0 : 0.3;
  }
  double shares = 0;
  for (const auto& [key, charged] : tally.sums().share_energy) shares += charged;
  const double counted = 299 * 350.0 + 300 * 175.0;
  EXPECT_NEAR(shares + tally.sums().unattributed_energy.at("GPU-1"), counted, counted / 1e9);
  EXPECT_GT(shares, counted / 2);
}

TEST(Tally, EventsOfSeveralThreadsAreAllCounted) {
  Tally tally;
  const auto add = [&tally] {
    for (int i = 0; i < 1000; ++i) {
      tally.note({.kind = "gpu.xid", .severity = "warn"});
      (void)tally.sums();
    }
  };
  std::thread one(add), other(add);
  one.join();
  other.join();
  EXPECT_EQ(tally.sums().events.at("gpu.xid"), 2000u);
}

TEST(DaemonFigures, TheKernelsFiguresAreOfThisProcess) {
  DaemonFigures figures;
  read_process_figures(figures);
  EXPECT_GT(figures.now_ns, 0u);
  ASSERT_TRUE(figures.cpu_seconds);
  if (!figures.resident_bytes) GTEST_SKIP() << "there is no /proc here";
  EXPECT_GT(*figures.resident_bytes, 1u << 20);
  EXPECT_LT(*figures.resident_bytes, 1u << 30);
  EXPECT_GE(figures.open_files.value_or(0), 3u);
}

}  // namespace
}  // namespace headgate::api
