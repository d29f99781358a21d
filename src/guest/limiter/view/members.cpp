#include "guest/limiter/view/members.hpp"

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
  std::uint64_t bytes = 0;
  const std::uint64_t residual =
      session.usage->slots[slot].devices[device_index].residual_bytes.load(std::memory_order_relaxed);
  if (__builtin_add_overflow(ledger::held_bytes(*session.usage, device_index, slot), residual, &bytes)) bytes = ~0ull;
  return {seat.identity.pid, bytes};
}

}  // namespace headgate::limiter
