#include "node/unadmitted.hpp"

#include <algorithm>
#include <set>

#include "guest/ledger/slot.hpp"

namespace headgate::node {
namespace {

bool sits_in(const ledger::UsagePage& usage, const ledger::Identity& who) {
  const std::uint32_t end = std::min(usage.slots_seen.load(std::memory_order_acquire), ledger::kMaxSlots);
  for (std::uint32_t slot = 0; slot < end; ++slot) {
    const auto seat = ledger::view(usage, slot);
    if (seat.kind == ledger::SlotKind::live && seat.identity.pid == who.pid &&
        seat.identity.pidns_inode == who.pidns_inode && seat.identity.start_time == who.start_time)
      return true;
  }
  return false;
}

}  // namespace

std::vector<tenancy::TenantProcess> Unadmitted::look(tenancy::Shares& shares, const tenancy::Processes& processes,
                                                     std::chrono::nanoseconds now, std::chrono::nanoseconds patience) {
  std::vector<tenancy::TenantProcess> found;
  std::set<std::pair<std::string, std::uint32_t>> present;
  processes.each([&](const tenancy::TenantProcess& tenant) {
    const tenancy::LiveShare* live = shares.find(tenant.share);
    if (live == nullptr || live->pages == nullptr) return;
    // Skip a process that was confirmed and is still in that slot. After exec() a program may have another slot.
    if (tenant.slot && !tenant.adopted && processes.sits(tenant.share, tenant.process.pid, *tenant.slot)) return;
    if (!sits_in(live->pages->usage(), tenant.seat)) return;
    const auto key = std::pair(tenant.share, tenant.process.pid);
    present.insert(key);
    // If the share changes to --admit=ask later, processes that are already in it stay.
    const bool asks = live->share.admit == tenancy::Admit::ask;
    const auto [at, anew] = seen_.try_emplace(key, Seen{.first = now, .told = !looked_ || !asks});
    if (at->second.told || now - at->second.first < patience) return;
    at->second.told = true;
    found.push_back(tenant);
  });
  std::erase_if(seen_, [&](const auto& entry) { return !present.contains(entry.first); });
  looked_ = true;
  return found;
}

}  // namespace headgate::node
