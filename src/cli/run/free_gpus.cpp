#include "cli/run/free_gpus.hpp"

#include <algorithm>

#include "cli/term/output.hpp"

namespace headgate::cli {
namespace {

// What the GPU is used by; empty: by nothing.
std::string user_of(const snapshot::Gpu& gpu, const snapshot::Snapshot& snapshot) {
  const auto has = [&](const auto& devices) {
    return std::ranges::any_of(devices, [&](const auto& device) { return device.uuid == gpu.uuid; });
  };
  for (const auto& share : snapshot.shares)
    if (has(share.devices)) return "the share " + harmless(share.name);
  for (const auto& process : snapshot.processes)
    if (has(process.devices)) return "process " + std::to_string(process.pid);
  return gpu.mig.value_or(false) ? "MIG" : "";
}

}  // namespace

Result<std::vector<std::string>> free_gpus(const snapshot::Snapshot& snapshot, unsigned count) {
  std::vector<std::string> free;
  std::string used;
  for (const auto& gpu : snapshot.gpus) {
    const std::string user = user_of(gpu, snapshot);
    if (user.empty()) free.push_back(gpu.uuid);
    else used += (used.empty() ? ": GPU " : ", GPU ") + std::to_string(gpu.index) + " is used by " + user;
  }
  if (free.size() < count)
    return fail(ErrorCode::no_capacity,
                "--gpus " + std::to_string(count) + ": " + std::to_string(free.size()) + " of " +
                    std::to_string(snapshot.gpus.size()) + " GPUs are free" + used,
                "headgate free lists room for a share: --share NAME");
  free.resize(count);
  return free;
}

}  // namespace headgate::cli
