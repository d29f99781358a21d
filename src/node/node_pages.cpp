#include "node/node_pages.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "guest/ledger/layout.hpp"
#include "guest/ledger/node_page.hpp"
#include "guest/ledger/wake.hpp"
#include "node/sealed_memory.hpp"

namespace headgate::node {

struct NodePages::Page {
  SealedMemory memory{"headgate-node-page", sizeof(ledger::NodePage), SealedMemory::Theirs::to_read};
  ledger::NodePage* at = memory.as<ledger::NodePage>();

  Page() {
    if (at == nullptr) return;
    at->header = {ledger::kNodeMagic, ledger::kNodePageVersion, sizeof *at};
    for (auto& bytes : at->unattributed_bytes) bytes.store(ledger::kNotTold, std::memory_order_relaxed);
  }
};

NodePages::NodePages() = default;
NodePages::~NodePages() = default;

int NodePages::descriptor(const std::string& share) {
  auto& page = pages_[share];
  if (page == nullptr) {
    auto made = std::make_unique<Page>();
    if (made->at == nullptr) return -1;
    page = std::move(made);
  }
  return page->memory.descriptor();
}

void NodePages::forget(const std::string& share) { pages_.erase(share); }

void NodePages::begin() {
  for (auto& [share, page] : pages_) {
    if (page != nullptr) page->at->begun.fetch_add(1);
  }
}

void NodePages::tell(const observe::DriverMemory& memory, const tenancy::Shares& shares,
                     const tenancy::Processes& processes) {
  contexts_.look(memory, shares, processes);
  const auto page_of = [&](const std::string& share) -> ledger::NodePage* {
    const auto found = pages_.find(share);
    return found == pages_.end() || found->second == nullptr ? nullptr : found->second->at;
  };
  // By share and its GPU: processes on the GPU, how many have a known MPS percentage, and the sum of those.
  struct Sum {
    std::uint32_t present = 0, known = 0, percent = 0;
  };
  std::map<std::string, std::array<Sum, ledger::kMaxDevices>> sums;
  processes.each([&](const tenancy::TenantProcess& tenant) {
    ledger::NodePage* const page = page_of(tenant.share);
    const auto live = shares.list().find(tenant.share);
    if (page == nullptr || live == shares.list().end() || !tenant.slot || tenant.slot->slot >= ledger::kMaxSlots)
      return;
    ledger::NodeSlot& seat = page->slots[tenant.slot->slot];
    const auto& devices = live->second.share.devices;
    for (std::size_t i = 0; i < std::min<std::size_t>(devices.size(), ledger::kMaxDevices); ++i)
      seat.driver_bytes[i].store(memory.bytes_of(devices[i].uuid, tenant.process.pid).value_or(ledger::kNotTold),
                                 std::memory_order_relaxed);
    std::uint64_t mps_devices = 0;
    for (std::size_t i = 0; i < std::min<std::size_t>(devices.size(), ledger::kMaxDevices); ++i) {
      const observe::DriverProcess* const on = memory.process_on(devices[i].uuid, tenant.process.pid);
      if (on == nullptr) continue;
      Sum& sum = sums[tenant.share][i];
      ++sum.present;
      const std::uint32_t percent =
          on->mps && live->second.pages != nullptr
              ? std::min(live->second.pages->usage().slots[tenant.slot->slot].devices[i].sm_percent.load(
                             std::memory_order_relaxed),
                         100u)
              : 0;
      if (percent == 0) continue;
      mps_devices |= 1ull << i;
      ++sum.known;
      sum.percent += percent;
    }
    seat.mps_devices.store(mps_devices, std::memory_order_relaxed);
    seat.generation.store(tenant.slot->generation, std::memory_order_release);
  });
  for (const auto& [name, live] : shares.list()) {
    ledger::NodePage* const page = page_of(name);
    if (page == nullptr) continue;
    const auto& devices = live.share.devices;
    const auto& parts = sums[name];
    for (std::size_t i = 0; i < parts.size(); ++i)
      page->sm_percent[i].store(parts[i].known == parts[i].present ? std::min(parts[i].percent, 100u) : 0,
                                std::memory_order_relaxed);
    for (std::size_t i = 0; i < std::min<std::size_t>(devices.size(), ledger::kMaxDevices); ++i) {
      page->unattributed_bytes[i].store(memory.unattributed_on(devices[i].uuid).value_or(ledger::kNotTold),
                                        std::memory_order_relaxed);
      page->context_bytes[i].store(contexts_.of(devices[i].uuid), std::memory_order_relaxed);
    }
    page->done.store(page->begun.load());
    ledger::wake(page->done);
  }
}

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
