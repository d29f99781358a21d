#include "node/context_sizes.hpp"

#include <algorithm>

#include "guest/ledger/layout.hpp"

namespace headgate::node {

void ContextSizes::look(const observe::DriverMemory& memory, const tenancy::Shares& shares,
                        const tenancy::Processes& processes) {
  processes.each([&](const tenancy::TenantProcess& tenant) {
    for (const observe::DriverProcess& listed : memory.processes) {
      if (listed.pid != tenant.process.pid || listed.bytes.value_or(0) == 0) continue;
      Known& card = cards_[listed.uuid];
      card.smallest_listed_bytes = std::min(card.smallest_listed_bytes, *listed.bytes);
    }
  });
  std::map<std::string, std::uint64_t> largest;
  for (const auto& [name, live] : shares.list()) {
    if (live.pages == nullptr) continue;
    const auto& devices = live.share.devices;
    for (std::size_t i = 0; i < std::min<std::size_t>(devices.size(), ledger::kMaxDevices); ++i) {
      const std::uint64_t bytes = live.pages->usage().compute[i].context_bytes.load(std::memory_order_relaxed);
      largest[devices[i].uuid] = std::max(largest[devices[i].uuid], bytes);
    }
  }
  for (auto& [uuid, card] : cards_) {
    if (largest[uuid] != 0) card.bytes = largest[uuid];
    card.bytes = std::min(card.bytes, card.smallest_listed_bytes);
  }
}

std::uint64_t ContextSizes::of(const std::string& uuid) const {
  const auto card = cards_.find(uuid);
  return card == cards_.end() ? 0 : card->second.bytes;
}

}  // namespace headgate::node
