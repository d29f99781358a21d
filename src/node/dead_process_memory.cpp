#include "node/dead_process_memory.hpp"

#include <set>

namespace headgate::node {

void DeadProcessMemory::look(tenancy::Shares& shares) {
  std::set<Key> present;
  for (auto& [name, live] : shares.list()) {
    if (live.pages == nullptr) continue;
    for (std::uint32_t device = 0; device < live.share.devices.size(); ++device) {
      if (ledger::draining_bytes(live.pages->usage(), device) == 0) continue;
      auto& seen = seen_[{name, device}];
      if (seen == nullptr) seen = std::make_unique<Seen>();
      seen->generation = live.generation;
      ledger::see_draining(live.pages->usage(), device, seen->draining);
      present.insert({name, device});
    }
  }
  std::erase_if(seen_, [&](const auto& entry) { return !present.contains(entry.first); });
}

void DeadProcessMemory::settle(tenancy::Shares& shares, const observe::DriverMemory& memory) {
  for (const auto& [key, seen] : seen_) {
    tenancy::LiveShare* const live = shares.find(key.first);
    if (live == nullptr || live->pages == nullptr || live->generation != seen->generation ||
        key.second >= live->share.devices.size())
      continue;
    const auto alive = memory.unattributed_on(live->share.devices[key.second].uuid);
    const ledger::Draining& then = seen->draining;
    if (alive && *alive < then.bytes)
      ledger::settle_draining(live->pages->usage(), key.second, {}, then, then.bytes - *alive);
  }
  seen_.clear();
}

}  // namespace headgate::node
