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

TEST(Tally, TimeWithClocksHeldDownIsSummedByReason) {
  Tally tally;
  tally.look(at(10, {"power cap"}));  // since when nobody knows
  tally.look(at(11, {"power cap"}));
  tally.look(at(12, {}));
  tally.look(at(14, {"power cap", "hardware thermal"}));
  const auto sums = tally.sums().throttled_seconds;
  EXPECT_DOUBLE_EQ(sums.at({"GPU-1", "power cap"}), 3);
  EXPECT_DOUBLE_EQ(sums.at({"GPU-1", "hardware thermal"}), 2);
}

TEST(Tally, AnHourWithoutPicturesIsNotAnHourOfThrottling) {
  Tally tally;
  tally.look(at(10, {"power cap"}));
  tally.look(at(3610, {"power cap"}));
  EXPECT_DOUBLE_EQ(tally.sums().throttled_seconds.at({"GPU-1", "power cap"}), Tally::kLongestGap);
}

TEST(Tally, APictureOfOldFiguresOrOfTheSameTimeAddsNothing) {
  Tally tally;
  tally.look(at(10, {}));
  auto released = at(11, {"power cap"});
  released.node.nvml_released = true;
  tally.look(released);
  tally.look(at(11, {"power cap"}));
  tally.look(at(9, {"power cap"}));
  EXPECT_TRUE(tally.sums().throttled_seconds.empty());
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
