// The node that views are tested with: one GPU, one share that was refused memory and had to wait, and a program
// outside.
#pragma once

#include <cstdint>

#include "cli/view/views.hpp"

namespace headgate::cli {

inline constexpr std::uint64_t kGi = 1ull << 30;

inline NodeSnapshot a_refused_share() {
  snapshot::Gpu gpu;
  gpu.index = 0;
  gpu.uuid = "GPU-9c2f0000-1111";
  gpu.model = "NVIDIA H200";
  gpu.pci_bus_id = "00000000:1B:00.0";
  gpu.memory_total_bytes = 141 * kGi;
  gpu.memory_used_bytes = 36 * kGi;
  gpu.memory_free_bytes = 104 * kGi;
  gpu.memory_reserved_bytes = 1 * kGi;
  gpu.busy_ratio = 0.75;
  gpu.memory_committed_bytes = 36 * kGi;

  snapshot::ShareDevice device;
  device.uuid = gpu.uuid;
  device.memory_limit_bytes = 36 * kGi;
  device.compute_ceiling_ratio = 0.25;
  device.memory_used_bytes = 35 * kGi;
  device.memory_peak_bytes = 36 * kGi;
  device.refusals = 3;
  device.last_refusal = {.asked_bytes = 2 * kGi,
                         .used_bytes = 35 * kGi,
                         .unix_ns = 50'531'000'000'000,
                         .limit_bytes = 36 * kGi,
                         .pid = 101};
  device.held_ns = 2'500'000'000;
  device.throttled_ns = 7'000'000'000;
  device.throttled_launches = 40;
  device.waited_ceiling_ns = 7'000'000'000;
  device.passed_in_debt = 2;
  device.last_throttle_unix_ns = 50'531'000'000'000;
  device.held_ratio = 0.2499;
  device.throttled_ratio = 0.731;
  device.limit_wait_ratio = 0.731;

  snapshot::Share share;
  share.name = "train";
  share.state = "throttled";
  share.level = "hook";
  share.processes = 1;
  share.devices = {device};

  snapshot::Process inside, outside;
  inside.pid = 101;
  inside.share = "train";
  inside.uid = 1000;
  inside.user = "alice";
  inside.command = "python";
  inside.level = "hook";
  inside.devices = {{.uuid = gpu.uuid, .driver_bytes = 35 * kGi, .ledger_bytes = 35 * kGi, .busy_ratio = {}}};
  outside.pid = 999;
  outside.level = "observe";
  outside.devices = {{.uuid = gpu.uuid, .driver_bytes = {}, .ledger_bytes = 0, .busy_ratio = {}}};

  NodeSnapshot all;
  all.now.node.driver_version = "570.124.06";
  all.now.node.level = "hook";
  all.now.node.simulated = true;
  all.now.gpus = {gpu};
  all.now.shares = {share};
  all.now.processes = {inside, outside};
  return all;
}

}  // namespace headgate::cli
