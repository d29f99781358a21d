#include "guest/ledger/gate.hpp"

#include <algorithm>

#include "guest/ledger/slot.hpp"
#include "guest/ledger/wake.hpp"

namespace headgate::ledger {
namespace {

std::uint32_t low_us(std::int64_t ns) { return static_cast<std::uint32_t>(ns / 1'000); }

}  // namespace

void write_gate(PolicyPage& policy, std::uint32_t device, Gate gate, std::int64_t batch_ns, std::int64_t opens_ns) {
  DevicePolicy& to = policy.devices[device];
  const std::int64_t batch_us = std::clamp<std::int64_t>(batch_ns / 1'000, 1, 100'000'000);
  to.batch_us.store(static_cast<std::uint32_t>(batch_us), std::memory_order_relaxed);
  to.opens_us.store(opens_ns == 0 ? 0 : std::max(1u, low_us(opens_ns)), std::memory_order_relaxed);
  to.gate.store(gate, std::memory_order_relaxed);
  to.gate_epoch.fetch_add(1, std::memory_order_release);
}

// The page has room for 32 bits, which repeat each 71 minutes. So a time too far ahead is one that has passed.
std::int64_t opens_in_ns(const DevicePolicy& policy, std::int64_t now_ns) {
  const std::uint32_t opens_us = policy.opens_us.load(std::memory_order_relaxed);
  const std::int64_t in_ns = std::int64_t{opens_us - low_us(now_ns)} * 1'000;
  return opens_us == 0 || in_ns > kMaxOpensInNs ? 0 : in_ns;
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
