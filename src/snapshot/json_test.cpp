#include "snapshot/json.hpp"

#include <gtest/gtest.h>

namespace headgate::snapshot {
namespace {

Snapshot full() {
  Snapshot s;
  s.taken_unix_ns = 1'795'000'000'000'000'000;
  s.taken_ns = 77;
  s.node = {
      .name = "lab-3", .version = "0.1.0", .driver_version = "580.95", .simulated = true, .level = "hook", .gpus = 1};
  Gpu gpu;
  gpu.uuid = "GPU-1";
  gpu.memory_total_bytes = ~0ull;
  gpu.busy_ratio = 0.25;
  gpu.xids = {{79, 2}};
  gpu.throttle_reasons = {"power cap"};
  gpu.mig = true;
  gpu.mig_instances = {{.uuid = "MIG-1",
                        .profile = "1g.18gb",
                        .gpu_instance = 7,
                        .compute_instance = 0,
                        .memory_total_bytes = 18ull << 30,
                        .memory_used_bytes = std::nullopt}};
  gpu.ecc_lifetime_corrected_errors = 3;
  gpu.pcie_rx_bytes_per_second = 1;
  gpu.nvlink_errors = 2;
  gpu.nvlink_tx_bytes = 1ull << 60;
  s.gpus = {gpu};
  Share share;
  share.name = "alice";
  share.admit = "ask";
  share.on_oom = "wait=30s";
  share.devices.resize(2);
  share.devices[0].memory_limit_bytes = 8ull << 30;
  share.devices[0].last_refusal = Refusal{1, 2, 3, 4, 5, "policy"};
  share.devices[0].launch_delays = {{10'000, 7}, {std::nullopt, 1}};
  share.devices[0].hook_errors = {{"cuEventRecord", 1}};
  s.shares = {share};
  Process process;
  process.pid = 4711;
  process.command = "a \"b\"\n\x01 \xff";
  process.devices = {{"GPU-1", std::nullopt, 5, 0.5}};
  process.freeze = Freeze{"/docker/abc", "echo 0 > /sys/fs/cgroup/docker/abc/cgroup.freeze"};
  s.processes = {process};
  return s;
}

TEST(SnapshotJson, ASnapshotSurvivesARoundTripThroughText) {
  Snapshot before = full();
  before.processes[0].command = "a \"b\"\n\x01";
  const auto after = from_json<Snapshot>(to_json(before));
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_EQ(*after, before);
}

// For one release, former names are written for old readers, and accepted from old daemons.
TEST(SnapshotJson, FormerNamesOfFieldsAreRead) {
  Snapshot now = full();
  now.gpus[0].memory_committed_bytes = 7;
  now.shares[0].overcommit = true;
  const std::string text = to_json(now);
  EXPECT_NE(text.find(R"("memory_committed_bytes":7,"memory_sold_bytes":7)"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("overcommit":true,"over_sell":true)"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("halt":{"cgroup":"/docker/abc")"), std::string::npos) << text;
  const auto former = from_json<Gpu>(R"({"memory_sold_bytes":5,"compute_unsold_ratio":0.5})");
  ASSERT_TRUE(former) << former.error().message;
  EXPECT_EQ(former->memory_committed_bytes, 5u);
  EXPECT_EQ(former->compute_uncommitted_ratio, 0.5);
  EXPECT_EQ(from_json<Gpu>(R"({"memory_sold_bytes":5,"memory_committed_bytes":6})")->memory_committed_bytes, 6u);
}

TEST(SnapshotJson, AListOfAnySizeIsOneText) {
  EXPECT_EQ(to_json(std::vector<Event>{}), "[]");
  const std::vector<Event> events = {{.sequence = 1, .text = "a"}, {.sequence = 2, .text = "b\n"}, {.sequence = 3}};
  EXPECT_EQ(from_json<std::vector<Event>>(to_json(events)), events);
  const std::vector<Event> one = {events[0]};
  EXPECT_EQ(to_json(one), "[" + to_json(events[0]) + "]");
}

TEST(SnapshotJson, InvalidUtf8DoesNotBreakTheReply) {
  const auto after = from_json<Snapshot>(to_json(full()));
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_EQ(after->processes[0].command, "a \"b\"\n\x01 \xef\xbf\xbd");
}

TEST(SnapshotJson, UnknownFieldsAreSkippedAndMissingOnesDefault) {
  const auto share = from_json<Share>(R"({"name":"a","from_the_future":[1,2]})");
  ASSERT_TRUE(share);
  EXPECT_EQ(share->name, "a");
  EXPECT_EQ(share->processes, 0u);
}

TEST(SnapshotJson, AWrongValueIsNamedByItsPath) {
  const struct {
    const char *text, *message;
  } cases[] = {
      {"", "this is no JSON: "},
      {"{", "this is no JSON: {"},
      {"[]", "the whole: expected an object"},
      {R"({"shares":{}})", "shares: expected a list"},
      {R"({"shares":[{"name":"a"},{"name":7}]})", "shares[1].name: expected a text"},
      {R"({"shares":[{"devices":[{"weight":-1}]}]})",
       "shares[0].devices[0].weight: expected a whole number of 0 to 4294967295"},
      {R"({"shares":[{"processes":4294967296}]})", "shares[0].processes: expected a whole number of 0 to 4294967295"},
      {R"({"gpus":[{"busy_ratio":"much"}]})", "gpus[0].busy_ratio: expected a number"},
      {R"({"node":{"simulated":1}})", "node.simulated: expected true or false"},
  };
  for (const auto& [text, message] : cases) {
    const auto snapshot = from_json<Snapshot>(text);
    ASSERT_FALSE(snapshot) << text;
    EXPECT_EQ(snapshot.error().message, message);
  }
}

TEST(SnapshotJson, EveryStructHasItsSchema) {
  const std::string all = schemas();
  for (const char* name :
       {"Node", "Gpu", "MigInstance", "Share", "ShareDevice", "Process", "Freeze", "Event", "Snapshot"})
    EXPECT_TRUE(all.contains("\"" + std::string(name) + "\":{\"type\":\"object\"")) << name;
}

}  // namespace
}  // namespace headgate::snapshot
