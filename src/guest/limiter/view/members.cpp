#include "guest/limiter/view/members.hpp"

#include "guest/bare/saturating.hpp"
#include "guest/ledger/slot.hpp"
#include "guest/limiter/session/membership.hpp"

namespace headgate::limiter {
bool in_share(unsigned pid) {
  for (std::uint32_t i = 0; i < ledger::kMaxSlots; ++i) {
    const ledger::SlotView slot = ledger::view(*session.usage, i);
    if (slot.kind == ledger::SlotKind::live && slot.identity.pid == pid && slot.identity.pidns_inode == own_namespace())
      return true;
  }
  return false;
}

Member member_at(std::uint32_t slot, std::uint32_t device_index) {
  const ledger::SlotView seat = ledger::view(*session.usage, slot);
  if (seat.kind != ledger::SlotKind::live || seat.identity.pidns_inode != own_namespace()) return {};
  const std::uint64_t residual =
      session.usage->slots[slot].devices[device_index].residual_bytes.load(std::memory_order_relaxed);
  return {seat.identity.pid, bare::saturating_add(ledger::held_bytes(*session.usage, device_index, slot), residual)};
}

}  // namespace headgate::limiter
