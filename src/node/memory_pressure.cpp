#include "node/memory_pressure.hpp"

#include <algorithm>

#include "guest/ledger/oom_wait.hpp"
#include "observe/ledgers.hpp"

namespace headgate::node {
namespace {

using tenancy::LiveShare;

bool idle(const std::string& name, const snapshot::Snapshot& latest) {
  const auto seen = std::ranges::find(latest.shares, name, &snapshot::Share::name);
  return seen != latest.shares.end() && seen->processes > 0 &&
         std::chrono::nanoseconds(seen->idle_ns) >= MemoryPressure::kIdle;
}

// A tenant claims that the card is full: compare with NVML, read at most a second ago.
bool card_lacks(const std::string& uuid, std::uint64_t bytes, const snapshot::Snapshot& latest) {
  const auto gpu = std::ranges::find(latest.gpus, uuid, &snapshot::Gpu::uuid);
  return gpu != latest.gpus.end() && gpu->memory_free_bytes < bytes;
}

}  // namespace

std::vector<MemoryShortage> MemoryPressure::look(tenancy::Shares& shares, const std::string& name,
                                                 const snapshot::Snapshot& latest, std::chrono::nanoseconds now) {
  std::vector<MemoryShortage> found;
  LiveShare* const live = shares.find(name);
  if (live == nullptr || live->pages == nullptr || live->pages->truncated()) return found;
  for (const auto& device : live->share.devices) {
    const std::uint32_t at = ledger::find_device(live->pages->policy(), device.uuid.c_str());
    const ledger::Want want = ledger::last_want(live->pages->usage(), at);
    Seen& seen = seen_[{name, device.uuid}];
    if (want.epoch == seen.epoch || (seen.acted && now - *seen.acted < kEvery)) continue;
    seen.epoch = want.epoch;
    seen.acted = now;
    const auto books = observe::read_ledger(live->pages->policy(), live->pages->usage()).share.devices;
    MemoryShortage shortage{.share = name,
                            .uuid = device.uuid,
                            .pid = want.pid,
                            .bytes = want.bytes,
                            .used_bytes = at < books.size() ? books[at].memory_used_bytes : 0,
                            .limit_bytes = device.memory_limit_bytes,
                            .of_card = want.of_card,
                            .asked = {},
                            .news = !seen.told || now - *seen.told >= std::chrono::seconds(10)};
    if (shortage.news) seen.told = now;
    ledger::ask_reclaim(live->pages->policy());
    if (want.of_card && card_lacks(device.uuid, want.bytes, latest)) {
      for (auto& [other, neighbour] : shares.list()) {
        if (other == name || neighbour.pages == nullptr || device_on(neighbour.share, device.uuid) == nullptr ||
            !idle(other, latest))
          continue;
        ledger::ask_reclaim(neighbour.pages->policy());
        shortage.asked.push_back(other);
      }
    }
    found.push_back(std::move(shortage));
  }
  return found;
}

void MemoryPressure::forget(const std::string& share) {
  std::erase_if(seen_, [&](const auto& entry) { return entry.first.first == share; });
}

}  // namespace headgate::node
