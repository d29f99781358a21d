#include "cli/run/engine_run.hpp"

#include <gtest/gtest.h>

namespace headgate::cli {
namespace {

TEST(FreeGpus, HaveNoShareAndNoProcess) {
  snapshot::Snapshot snapshot;
  for (std::uint32_t i = 0; i < 5; ++i) {
    snapshot.gpus.push_back({.uuid = "GPU-" + std::to_string(i), .index = i});
  }
  snapshot.gpus[3].mig = true;
  snapshot.shares.emplace_back().name = "a";
  snapshot.shares[0].devices.emplace_back().uuid = "GPU-0";
  snapshot.processes.emplace_back().pid = 77;
  snapshot.processes[0].devices.emplace_back().uuid = "GPU-2";
  EXPECT_EQ(free_gpus(snapshot, 1), (std::vector<std::string>{"GPU-1"})) << "Docker itself counts from 0";
  EXPECT_EQ(free_gpus(snapshot, 2), (std::vector<std::string>{"GPU-1", "GPU-4"}));
  const auto refused = free_gpus(snapshot, 3);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "--gpus 3: 2 of 5 GPUs are free: GPU 0 is used by the share a, GPU 2 is used by process 77, GPU 3 is used "
            "by MIG");
  snapshot.gpus.clear();
  EXPECT_EQ(free_gpus(snapshot, 1).error().message, "--gpus 1: 0 of 0 GPUs are free");
}

}  // namespace
}  // namespace headgate::cli
