#include "guest/ledger/gate.hpp"

#include <algorithm>

#include "guest/ledger/slot.hpp"
#include "guest/ledger/wake.hpp"

namespace headgate::ledger {

void write_gate(PolicyPage& policy, std::uint32_t device, Gate gate, std::int64_t batch_ns) {
  DevicePolicy& to = policy.devices[device];
  const std::int64_t batch_us = std::clamp<std::int64_t>(batch_ns / 1'000, 1, 100'000'000);
  to.batch_us.store(static_cast<std::uint32_t>(batch_us), std::memory_order_relaxed);
  to.gate.store(gate, std::memory_order_relaxed);
  to.gate_epoch.fetch_add(1, std::memory_order_release);
}

void wake_at_gate(PolicyPage& policy, std::uint32_t device) { wake(policy.devices[device].gate_epoch); }

void set_arbitrated(PolicyPage& policy, std::uint32_t device, bool arbitrated) {
  DevicePolicy& to = policy.devices[device];
  to.arbitrated.store(arbitrated ? 1 : 0, std::memory_order_relaxed);
  to.gate_epoch.fetch_add(1, std::memory_order_release);
  wake_at_gate(policy, device);
}

WorkReport work_of(const UsagePage& page, std::uint32_t device, std::uint32_t slot) {
  if (slot >= kMaxSlots || view(page, slot).kind != SlotKind::live) return {};
  const SlotDevice& books = page.slots[slot].devices[device];
  return {books.work_until_ns.load(std::memory_order_relaxed), books.waiting.load(std::memory_order_relaxed) != 0,
          books.pulse.load(std::memory_order_relaxed), books.oldest_ns.load(std::memory_order_relaxed)};
}

}  // namespace headgate::ledger
