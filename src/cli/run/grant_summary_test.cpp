#include "cli/run/run_daemon.hpp"

#include <gtest/gtest.h>

namespace headgate::cli {
namespace {

snapshot::Snapshot snapshot() {
  snapshot::Snapshot snapshot;
  snapshot::Gpu gpu;
  gpu.uuid = "GPU-1";
  gpu.model = "NVIDIA H200";
  snapshot.gpus = {gpu};
  snapshot.node.simulated = true;
  snapshot::Share share;
  share.name = "train";
  share.level = "hook";
  snapshot::ShareDevice device;
  device.uuid = "GPU-1";
  device.memory_limit_bytes = 8ull << 30;
  share.devices = {device};
  snapshot.shares = {share};
  return snapshot;
}

TEST(GrantSummary, NamesGpusLimitsLevelAndSimulation) {
  auto seen = snapshot();
  auto& device = seen.shares[0].devices[0];
  EXPECT_EQ(format_granted(seen, seen.shares[0]), "share train on GPU 0 (H200): 8.0 GiB, no compute limit, SIMULATED");
  device.compute_guarantee_ratio = 0.5;
  device.compute_ceiling_ratio = 0.8;
  device.memory_limit_bytes = std::nullopt;
  EXPECT_EQ(format_granted(seen, seen.shares[0]),
            "share train on GPU 0 (H200): no memory limit, 50 % promised, at most 80 %, SIMULATED");
  device.compute_ceiling_ratio = 0.5;
  device.compute_burst_ratio = 0.9;
  seen.shares[0].devices.push_back(device);
  seen.shares[0].devices[1].uuid = "GPU-taken-out";
  seen.node.simulated = false;
  EXPECT_EQ(format_granted(seen, seen.shares[0]),
            "share train on GPU 0 (H200), GPU-taken-ou: each no memory limit, 50 % promised, at most 90 %");
}

TEST(GrantSummary, CountsOnlyRefusalsOfTheRun) {
  auto then = snapshot().shares[0], now = then;
  then.devices[0].refusals = 3;
  now.devices[0].refusals = 3;
  EXPECT_EQ(format_refused(then, now), "");
  now.devices[0].refusals = 4;
  EXPECT_EQ(format_refused(then, now), "share train was refused memory once meanwhile: headgate why train");
  now.devices[0].refusals = 9;
  EXPECT_TRUE(format_refused(then, now).contains(" 6 times "));
  EXPECT_EQ(format_refused(now, then), "") << "the share was created again meanwhile";
}

}  // namespace
}  // namespace headgate::cli
