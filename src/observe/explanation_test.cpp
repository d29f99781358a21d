#include "observe/compute_check.hpp"

#include <gtest/gtest.h>

#include "observe/test_books.hpp"

namespace headgate::observe {
namespace {

snapshot::Snapshot snapshot_of(std::initializer_list<double> busy) {
  snapshot::Snapshot snapshot;
  snapshot.gpus.resize(1);
  snapshot.gpus[0].uuid = kGpu;
  for (const double each : busy) {
    snapshot::Process process;
    process.devices = {{.uuid = kGpu, .driver_bytes = 1, .ledger_bytes = 1, .busy_ratio = each}};
    snapshot.processes.push_back(process);
  }
  return snapshot;
}

TEST(Explanation, FiguresAboveTheGpuCountTimeTwice) {
  EXPECT_EQ(counted_times(snapshot_of({}), kGpu), 1);
  EXPECT_EQ(counted_times(snapshot_of({0.5, 0.3}), kGpu), 1);
  EXPECT_EQ(counted_times(snapshot_of({1.0, 1.0, 0.5}), kGpu), 2.5);
  EXPECT_EQ(counted_times(snapshot_of({1.0, 1.0}), "GPU-other"), 1);
}

TEST(Explanation, AllMpsProcessesMayRunAtOnce) {
  snapshot::Snapshot snapshot = snapshot_of({0.2, 0.2, 0.1});
  snapshot.gpus[0].mps_clients = 2;
  EXPECT_EQ(counted_times(snapshot, kGpu), 3);
}

TEST(Explanation, WorkInFlightIsChargedAsShortUntilItEnds) {
  EXPECT_TRUE(may_be_in_flight({.in_flight = true, .launched = false}));
  EXPECT_TRUE(may_be_in_flight({.in_flight = true, .launched = true, .held_ns = 40 * 200'000, .launches = 40}));
  EXPECT_FALSE(may_be_in_flight({.in_flight = false, .launched = false})) << "nothing is in flight";
  EXPECT_FALSE(may_be_in_flight({.in_flight = true, .launched = true, .held_ns = kMs, .launches = 900}))
      << "launches end, and are not charged";
  EXPECT_FALSE(may_be_in_flight({.in_flight = true, .launched = true, .held_ns = 450 * kMs, .launches = 900}))
      << "their length is known";
}

}  // namespace
}  // namespace headgate::observe
