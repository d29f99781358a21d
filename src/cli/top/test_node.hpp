// The node used by the tests of the live view and shown in frames/.
#pragma once

#include <string>

#include "cli/top/state.hpp"

namespace headgate::cli {

inline constexpr std::uint64_t kTestGiB = 1ull << 30;
inline constexpr std::uint64_t kTestTime = 50'531'000'000'000;  // 14:02:11 in UTC

inline snapshot::Gpu test_gpu(std::uint32_t index) {
  snapshot::Gpu gpu;
  gpu.uuid = "GPU-" + std::to_string(index) + "c2f0000-1111";
  gpu.index = index;
  gpu.model = "NVIDIA H200";
  gpu.memory_total_bytes = 141 * kTestGiB;
  gpu.memory_used_bytes = 32 * kTestGiB;
  gpu.memory_free_bytes = 107 * kTestGiB;
  gpu.memory_reserved_bytes = 2 * kTestGiB;
  gpu.memory_committed_bytes = 40 * kTestGiB;
  gpu.memory_shares_bytes = 30 * kTestGiB;
  gpu.memory_unattributed_bytes = 2 * kTestGiB;
  gpu.compute_committed_ratio = 0.8;
  gpu.busy_ratio = 0.93;
  gpu.temperature_celsius = 71;
  gpu.power_mw = 698'000;
  gpu.power_limit_mw = 700'000;
  gpu.sm_clock_mhz = 1980;
  gpu.throttle_reasons = {"power cap"};
  return gpu;
}

inline snapshot::Share test_share(const std::string& name, const std::string& owner, std::uint64_t limit_gib,
                                  std::uint64_t used_gib, double guarantee, double ceiling, double held) {
  snapshot::ShareDevice device;
  device.uuid = test_gpu(0).uuid;
  device.memory_limit_bytes = limit_gib * kTestGiB;
  device.memory_used_bytes = used_gib * kTestGiB;
  device.memory_residual_bytes = kTestGiB / 2;
  device.memory_peak_bytes = used_gib * kTestGiB;
  device.compute_guarantee_ratio = guarantee;
  device.compute_ceiling_ratio = ceiling;
  device.weight = 100;
  device.priority_class = "normal";
  device.held_ns = 60'000'000'000;
  device.held_ratio = held;
  device.throttled_ratio = 0;
  snapshot::Share share;
  share.name = name;
  share.owner = owner;
  share.state = "ok";
  share.level = "hook";
  share.fail_policy = "open";
  share.processes = 1;
  share.devices = {device};
  return share;
}

inline snapshot::Process test_process(std::uint32_t pid, const std::string& share, const std::string& user,
                                      const std::string& command, std::uint64_t gib) {
  snapshot::Process process;
  process.pid = pid;
  process.share = share;
  process.user = user;
  process.command = command;
  process.where = "host";
  process.level = share.empty() ? "observe" : "hook";
  process.devices = {{.uuid = test_gpu(0).uuid, .driver_bytes = gib * kTestGiB, .ledger_bytes = 0, .busy_ratio = 0.5}};
  return process;
}

// Three users, one over its limit, one idle, one process outside all shares; two GPUs, the second unused.
inline snapshot::Snapshot test_picture() {
  snapshot::Snapshot picture;
  picture.taken_unix_ns = kTestTime;
  picture.node.name = "lab-3";
  picture.node.driver_version = "580.95";
  picture.node.simulated = true;
  picture.node.pid_space = "boot:4026531836";
  picture.node.level = "hook";
  picture.node.unattended_processes = 1;
  picture.gpus = {test_gpu(0), test_gpu(1)};
  auto& spare = picture.gpus[1];
  spare.memory_used_bytes = spare.memory_committed_bytes = spare.memory_shares_bytes = spare.memory_unattributed_bytes =
      0;
  spare.memory_free_bytes = 139 * kTestGiB;
  spare.compute_committed_ratio = 0;
  spare.busy_ratio = 0;
  spare.temperature_celsius = 34;
  spare.power_mw = 76'000;
  spare.throttle_reasons.clear();
  picture.shares = {test_share("notebook", "bob", 16, 8, 0, 0.5, 0), test_share("train", "alice", 16, 15, 0.5, 1, 0.52),
                    test_share("vllm-small", "svc", 8, 7, 0.3, 0.3, 0.31)};
  auto& idle = picture.shares[0];
  idle.state = "idle";
  idle.idle_ns = 11'520'000'000'000;
  auto& refused = picture.shares[1].devices[0];
  picture.shares[1].state = "throttled";
  refused.throttled_ratio = 0.04;
  refused.throttled_ns = 7'000'000'000;
  refused.throttled_launches = 40;
  refused.last_throttle_unix_ns = kTestTime;
  refused.refusals = 3;
  refused.last_refusal = {.asked_bytes = 2 * kTestGiB,
                          .used_bytes = 15 * kTestGiB,
                          .unix_ns = kTestTime,
                          .limit_bytes = 16 * kTestGiB,
                          .pid = 48121};
  picture.processes = {
      test_process(50120, "notebook", "bob", "jupyter", 8), test_process(48121, "train", "alice", "python", 15),
      test_process(31007, "vllm-small", "svc", "vllm", 7), test_process(50977, "", "carol", "ffmpeg", 2)};
  picture.processes[3].finding =
      "process 50977 (ffmpeg, carol) uses 2.0 GiB on GPU 0 and is in no share: no limit applies to it; the limiter is "
      "not loaded";
  picture.processes[3].devices[0].busy_ratio = 0.1;
  return picture;
}

inline std::vector<snapshot::Event> test_events() {
  return {{.sequence = 1,
           .unix_ns = kTestTime - 1'320'000'000'000,
           .kind = "share.idle",
           .severity = "info",
           .share = "notebook",
           .text = "notebook is idle since 10:50, bob was told"},
          {.sequence = 2,
           .unix_ns = kTestTime,
           .kind = "memory.refused",
           .severity = "warn",
           .share = "train",
           .text = "train asked for 2.0 GiB on GPU 0, refused: 15.0 GiB of 16.0 GiB in use (3 times)"}};
}

inline TopState test_state() {
  TopState state;
  state.daemon = true;
  state.pid_space = "boot:4026531836";
  for (int i = 0; i < 40; ++i) state = observed(std::move(state), test_picture(), {});
  return observed(std::move(state), test_picture(), test_events());
}

}  // namespace headgate::cli
