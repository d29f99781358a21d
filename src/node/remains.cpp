#include "node/remains.hpp"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <set>

namespace headgate::node {
namespace {

// A driver may list a process for a while after its end.
bool has_ended(std::uint32_t pid) { return ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH; }

}  // namespace

std::optional<std::uint64_t> unattributed_bytes(const observe::DriverPicture& driver, const std::string& uuid) {
  const auto gpu = std::ranges::find(driver.gpus, uuid, &snapshot::Gpu::uuid);
  if (gpu == driver.gpus.end()) return std::nullopt;
  std::uint64_t left = gpu->memory_used_bytes;
  for (const auto& process : driver.processes) {
    if (process.uuid != uuid || has_ended(process.pid)) continue;
    if (!process.bytes) return std::nullopt;
    left -= std::min(left, *process.bytes);
  }
  return left;
}

void Remains::settle(tenancy::Shares& shares, const observe::DriverPicture& driver) {
  std::set<Key> present;
  for (auto& [name, live] : shares.list()) {
    if (live.pages == nullptr) continue;
    ledger::UsagePage& usage = live.pages->usage();
    for (std::uint32_t device = 0; device < live.share.devices.size(); ++device) {
      const Key key{name, device};
      const auto before = seen_.find(key);
      if (before != seen_.end() && before->second->generation == live.generation) {
        const auto alive = unattributed_bytes(driver, live.share.devices[device].uuid);
        const ledger::Draining& then = before->second->draining;
        if (alive && *alive < then.bytes) ledger::settle_draining(usage, device, {}, then, then.bytes - *alive);
      }
      if (ledger::draining_bytes(usage, device) == 0) continue;
      auto& seen = seen_[key];
      if (seen == nullptr) seen = std::make_unique<Seen>();
      seen->generation = live.generation;
      ledger::see_draining(usage, device, seen->draining);
      present.insert(key);
    }
  }
  std::erase_if(seen_, [&](const auto& entry) { return !present.contains(entry.first); });
}

}  // namespace headgate::node
