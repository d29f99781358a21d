// Bytes that no process of the share holds by its calls but that may still exist. Either their maker exported and then
// freed them (draining), or a process died and left them (orphans): exported bytes, and those the driver has not yet
// freed. Only the driver knows when they end; until then they stay charged.
#pragma once

#include <cstdint>

#include "guest/ledger/account.hpp"
#include "guest/ledger/layout.hpp"

namespace headgate::ledger {

// What the share's slots had draining on one device at one moment.
struct Draining {
  std::uint64_t bytes;
  std::uint64_t of_slot[kMaxSlots];  // including residuals of dead processes
  std::uint64_t torn[kMaxSlots];     // the part that ends with its process
  std::uint64_t life[kMaxSlots];     // the slot's life word at that time
};
void see_draining(const UsagePage& page, std::uint32_t device, Draining& out);

// Returns the sum alone.
std::uint64_t draining_bytes(const UsagePage& page, std::uint32_t device);

// The part of draining bytes that ends with dead processes, including their residuals.
struct Torn {
  std::uint64_t bytes, residual;
  std::int64_t died_ns;  // bare::host_ns() of the latest death; 0: none
};
Torn torn_on(const UsagePage& page, std::uint32_t device);

// Records that the caller freed that many of its exported bytes.
void add_draining(UsagePage& page, std::uint32_t device, SlotRef slot, std::uint64_t bytes);

// Settles that `gone` of the `seen` bytes no longer exist; the caller must look at the page before the driver. Gives
// back whole orphans and the caller's own bytes. Processes that do so at once give the same bytes back only once: each
// takes the slots in order and leaves other owners' bytes to them. Without a slot, gives back orphans only. Returns how
// many of the caller's bytes were given back.
std::uint64_t settle_draining(UsagePage& page, std::uint32_t device, SlotRef own, const Draining& seen,
                              std::uint64_t gone);

}  // namespace headgate::ledger
