// Bytes that nobody of the share holds any more as far as its calls tell, and that may be alive yet: exported, and then
// let go of by their maker (draining), or left by a death (orphans): what had been exported, and what the driver has
// not taken down yet. Only the driver knows when they end; until it shows that, they stay charged.
#pragma once

#include <cstdint>

#include "guest/ledger/account.hpp"
#include "guest/ledger/layout.hpp"

namespace headgate::ledger {

// What the share's slots had draining on one device at one moment.
struct Draining {
  std::uint64_t bytes;
  std::uint64_t of_slot[kMaxSlots];  // residuals of the dead included
  std::uint64_t torn[kMaxSlots];     // the part of it that goes with its process
  std::uint64_t life[kMaxSlots];     // whose they were then
};
void see_draining(const UsagePage& page, std::uint32_t device, Draining& out);

// The sum alone.
std::uint64_t draining_bytes(const UsagePage& page, std::uint32_t device);

// Of what drains, that which goes with dead processes: their residuals with it, and these alone.
struct Torn {
  std::uint64_t bytes, residual;
  std::int64_t died_ns;  // bare::host_ns(), of the last of them; 0: there is none
};
Torn torn_on(const UsagePage& page, std::uint32_t device);

// The caller has let go of that many of its exported bytes.
void add_draining(UsagePage& page, std::uint32_t device, SlotRef slot, std::uint64_t bytes);

// `gone` of `seen` bytes do not exist any more; the caller looked at the driver after he had looked at the page. Gives
// back orphans, whole, and the caller's own. All who come to the same conclusion at once give the same bytes back,
// once: each counts the slots in their order, and leaves to the others what is theirs. A caller without a slot gives
// back orphans alone. Returns the bytes of the caller that were given back.
std::uint64_t settle_draining(UsagePage& page, std::uint32_t device, SlotRef own, const Draining& seen,
                              std::uint64_t gone);

}  // namespace headgate::ledger
