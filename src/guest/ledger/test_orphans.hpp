// What tests ask about orphans, and do with them, on all accounts at once.
#pragma once

#include "guest/ledger/slot.hpp"

namespace headgate::ledger {

// Bytes that dead processes had exported to others; they stay charged to the share.
inline std::uint64_t orphaned_bytes(const UsagePage& page, std::uint32_t device) {
  std::uint64_t sum = 0;
  each_slot(page, [&](const SlotAt& at) {
    if (at.kind == SlotKind::orphan) sum += orphan_bytes(page, device, at.index);
  });
  return sum;
}

inline void release_orphan(UsagePage& page, SlotRef slot) {
  for (std::uint32_t device = 0; device < page.device_count && device < kMaxDevices; ++device) {
    release_orphan_on(page, slot, device);
    release_orphan_on(page, slot, host_account(device));
  }
}

}  // namespace headgate::ledger
