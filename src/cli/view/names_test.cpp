#include "cli/view/names.hpp"

#include <gtest/gtest.h>

#include "cli/view/views.hpp"

namespace headgate::cli {
namespace {

// One share on two GPUs, with one program.
NodeSnapshot snapshot() {
  snapshot::ShareDevice device;
  device.throttled_ratio = 0.5;
  device.waits_for = "ceiling";
  NodeSnapshot snapshot;
  for (std::uint32_t i = 0; i < 2; ++i) {
    snapshot::Gpu gpu;
    gpu.index = i;
    device.uuid = gpu.uuid = "GPU-" + std::to_string(i);
    snapshot.now.gpus.push_back(gpu);
    if (snapshot.now.shares.empty()) snapshot.now.shares.resize(1);
    snapshot.now.shares[0].devices.push_back(device);
  }
  snapshot.now.shares[0].name = "train";
  snapshot.now.shares[0].level = "hook";
  snapshot.now.shares[0].state = "throttled";
  snapshot.now.processes.resize(1);
  snapshot.now.processes[0].pid = 101;
  snapshot.now.processes[0].share = "train";
  return snapshot;
}

TEST(Names, AWaitOnOneGpuIsNotShownForOthers) {
  NodeSnapshot seen = snapshot();
  auto& share = seen.now.shares[0];
  const auto states = [&] {
    return state_on(seen.now, share, share.devices[0]) + ", " + state_on(seen.now, share, share.devices[1]);
  };
  EXPECT_EQ(states(), "throttled, throttled");
  share.devices[1].throttled_ratio = 0;
  EXPECT_EQ(states(), "throttled, ok");
  share.devices[1].throttled_ratio = 0.5;
  share.devices[1].waits_for = "turn";
  EXPECT_EQ(states(), "throttled, takes turns");
  share.state = "paused";
  EXPECT_EQ(states(), "paused, paused");
}

// As in headgate_share_enforcement: a share with programs that bypass its limits must not appear as "ok".
TEST(Names, AShareWithAnAuditFindingIsBypassedInEachTable) {
  NodeSnapshot seen = snapshot();
  seen.now.processes[0].finding = "process 101 uses more than its ledger says";
  for (const std::string& text :
       {status_text(seen, {}), shares_text(seen.now.shares, seen.now, {}), ps_text(seen, {})}) {
    EXPECT_TRUE(text.contains("bypassed")) << text;
    EXPECT_FALSE(text.contains("at limit")) << text;
  }
}

TEST(Names, TheAgeOfASnapshotFitsTheSmallestTerminal) {
  EXPECT_EQ(format_old_snapshot(10'000'000'000, 22'000'000'000),
            "headgated does not answer: this snapshot is 12s old; see: headgate doctor");
  EXPECT_TRUE(format_old_snapshot(10, 9).contains(" 0s old")) << "a clock that was set back";
  EXPECT_LE(format_old_snapshot(0, 86'399'000'000'000).size(), 79u);
}

TEST(Why, ReportsDrainedBypassedAndStaleFigures) {
  NodeSnapshot seen = snapshot();
  auto& share = seen.now.shares[0];
  const auto text = [&] { return why_text(seen, {share}, {}); };
  EXPECT_FALSE(text().contains("drained") || text().contains("bypassed") || text().contains("OLD")) << text();
  share.state = "draining";
  EXPECT_TRUE(
      text().contains("  it is being drained: no process may join, and it gets no more memory\n"
                      "    what helps: headgate share resume train\n"))
      << text();
  share.expired = true;
  EXPECT_FALSE(text().contains("share resume")) << "its time is over, and that is said: " << text();
  seen.now.processes[0].finding = "process 101 uses more than its ledger says";
  EXPECT_TRUE(text().contains("  bypassed: process 101 uses more than its ledger says\n")) << text();
  seen.now.node.nvml_released = true;
  EXPECT_TRUE(text().contains("GPU FIGURES ARE OLD\n")) << text();
  seen.now.node.simulated = true;
  seen.now.node.level = "hook";
  EXPECT_TRUE(why_text(seen, {}, {}).starts_with("SIMULATED, GPU FIGURES ARE OLD\n"));
}

TEST(Names, StatusListsWaitingRequests) {
  NodeSnapshot seen = snapshot();
  EXPECT_FALSE(status_text(seen, {}).contains("waiting for room"));
  snapshot::Waiting waiting;
  waiting.place = 1;
  waiting.share = "big";
  waiting.uuids = {"GPU-1"};
  seen.now.waiting = {waiting};
  EXPECT_TRUE(status_text(seen, {}).contains("waiting for room:\nIN LINE  SHARE  OWNER  GPU")) << status_text(seen, {});
}

}  // namespace
}  // namespace headgate::cli
