#include "cli/daemon_picture.hpp"

#include <algorithm>

namespace headgate::cli {
namespace {

ledger::Level level_of(const std::string& word) {
  for (const auto level : {ledger::Level::observe, ledger::Level::hook, ledger::Level::hook_container,
                           ledger::Level::mps, ledger::Level::mig}) {
    if (level_text(level) == word) return level;
  }
  return ledger::Level::observe;  // a level that we do not know promises nothing that we know
}

std::uint32_t ppm(double ratio) { return static_cast<std::uint32_t>(std::clamp(ratio, 0.0, 1000.0) * 1e6 + 0.5); }

std::optional<std::uint32_t> ppm(const std::optional<double>& ratio) {
  return ratio ? std::optional(ppm(*ratio)) : std::nullopt;
}

Gpu gpu_with_pids(const snapshot::Gpu& from, const std::vector<snapshot::Process>& processes) {
  Gpu gpu = gpu_of(from);
  for (const auto& process : processes) {
    const auto uses = [&](const auto& device) { return device.uuid == from.uuid && device.driver_bytes.has_value(); };
    if (process.pid != 0 && std::ranges::any_of(process.devices, uses)) gpu.pids.push_back(process.pid);
  }
  return gpu;
}

ShareDevice device_of(const snapshot::ShareDevice& from) {
  ShareDevice device;
  device.uuid = from.uuid;
  device.memory_limit_bytes = from.memory_limit_bytes;
  device.compute_ceiling_ppm = ppm(from.compute_ceiling_ratio);
  device.host_limit_bytes = from.host_limit_bytes;
  device.host_used_bytes = from.host_used_bytes;
  device.memory_residual_bytes = from.memory_residual_bytes;
  device.memory_used_bytes = from.memory_used_bytes;
  device.memory_peak_bytes = from.memory_peak_bytes;
  device.memory_orphaned_bytes = from.memory_draining_bytes;
  device.refusals = from.refusals;
  if (from.last_refusal) {
    device.last_refusal_bytes = from.last_refusal->asked_bytes;
    device.last_refusal_used_bytes = from.last_refusal->used_bytes;
    device.last_refusal_ns = from.last_refusal->unix_ns;
    device.last_refusal_pid = from.last_refusal->pid;
  }
  device.held_ns = from.held_ns;
  device.estimated_ns = from.estimated_ns;
  device.copy_ns = from.copy_ns;
  device.throttled_ns = from.throttled_ns;
  device.throttled_launches = from.throttled_launches;
  device.passed_in_debt = from.passed_in_debt;
  device.last_throttle_ns = from.last_throttle_unix_ns;
  device.held_ppm = ppm(from.held_ratio);
  device.throttled_ppm = ppm(from.throttled_ratio);
  return device;
}

Share share_of(const snapshot::Share& from, const std::vector<snapshot::Process>& processes) {
  Share share;
  share.name = from.name;
  share.level = level_of(from.level);
  share.fail_policy = from.fail_policy == "closed" ? ledger::FailPolicy::closed : ledger::FailPolicy::open;
  share.owner_uid = from.owner_uid;
  share.paused = from.state == "paused";
  share.attended = from.state != "empty";
  for (const auto& device : from.devices) share.devices.push_back(device_of(device));
  for (const auto& process : processes) {
    if (process.share != from.name) continue;
    ShareProcess& row = share.processes.emplace_back();
    row.pid = process.pid != 0 ? process.pid : process.pid_in_share.value_or(0);
    row.command = harmless(process.command);
    for (const auto& device : from.devices) {
      const auto found = std::ranges::find(process.devices, device.uuid, &snapshot::ProcessDevice::uuid);
      row.held_bytes.push_back(found == process.devices.end() ? 0 : found->ledger_bytes);
    }
  }
  return share;
}

}  // namespace

Picture picture_of(const snapshot::Snapshot& snapshot) {
  Picture picture;
  picture.daemon = true;
  picture.gpus.emplace();
  picture.gpus->driver_version = snapshot.node.driver_version;
  picture.gpus->simulated = snapshot.node.simulated;
  for (const auto& gpu : snapshot.gpus) picture.gpus->list.push_back(gpu_with_pids(gpu, snapshot.processes));
  for (const auto& share : snapshot.shares) {
    // With devices it is damaged, and shown as far as it can be.
    if (share.devices.empty() || !share.problem.empty())
      picture.shares.unreadable.push_back({harmless(share.name), {ErrorCode::failed, share.problem, ""}});
    if (share.devices.empty()) continue;
    picture.shares.list.push_back(share_of(share, snapshot.processes));
  }
  picture.shares.taken_ns = snapshot.taken_ns;
  return picture;
}

}  // namespace headgate::cli
