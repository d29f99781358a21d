// The memory accounts of a share (`device`: a device's account, or its host_account()). Exact to the byte whenever a
// process is killed (operation and crash argument: account.cpp; model: models/ledger.pml).
//
// All functions are thread-safe. They never allocate, block on another process, or fail except as stated. A page may be
// hostile: arithmetic saturates and indices are checked, so a corrupted page gives wrong figures, never a crash.
#pragma once

#include <cstdint>

#include "guest/ledger/layout.hpp"

namespace headgate::ledger {

// A process's slot in the usage page, from claim() in slot.hpp.
struct SlotRef {
  std::uint32_t slot = kNoSlot;
  std::uint32_t generation = 0;
};

struct Reservation {
  bool ok;
  std::uint64_t used_bytes;  // of the whole share, after the operation or when it was refused
};

// Charges `bytes` to the share if used + bytes <= limit_bytes (kNoMemoryLimit: always). A refusal changes nothing; a
// caller that gives up (instead of trimming a pool and retrying) calls note_refusal(). Reserve before the driver's
// allocation, give back after its free. Also refused if the slot is not, or no longer, the caller's.
Reservation reserve(UsagePage& page, std::uint32_t device, SlotRef slot, std::uint64_t bytes,
                    std::uint64_t limit_bytes);

// Returns `bytes` to the share; at most what the slot holds, and at most 2^63 - 1. Returns the bytes given back.
std::uint64_t give_back(UsagePage& page, std::uint32_t device, SlotRef slot, std::uint64_t bytes);

// The same for a reservation, or a part of it, that the driver refused: it does not count for the peak.
std::uint64_t unreserve(UsagePage& page, std::uint32_t device, SlotRef slot, std::uint64_t bytes);

// Call when the driver allocated what was reserved: raises the peak to what is in use now.
void note_peak(UsagePage& page, std::uint32_t device);
// The same for the total in use, including the share's last measured `residual_bytes` (contexts and code).
void note_in_use(UsagePage& page, std::uint32_t device, std::uint64_t residual_bytes);

// Charges without a check, for what exists already (contexts, code). May exceed the limit; then all reservations are
// refused. Returns false if the slot is not the caller's.
bool charge(UsagePage& page, std::uint32_t device, SlotRef slot, std::uint64_t bytes);

// Returns what the share uses now; one 8-byte load.
std::uint64_t used_bytes(const UsagePage& page, std::uint32_t device);

// Returns the most that was in use. Counts reservations of other processes that the driver later refused only if it
// granted one at the same instant.
std::uint64_t peak_bytes(const UsagePage& page, std::uint32_t device);
// The same with contexts and code as of the time it was noted.
std::uint64_t peak_in_use_bytes(const UsagePage& page, std::uint32_t device);

// Details of a refusal for `headgate why`; the time and the process are added.
struct Refused {
  std::uint64_t asked_bytes = 0, used_bytes = 0, limit_bytes = kNoMemoryLimit;  // at the time of the refusal
  Denial by = Denial::limit;
};
void note_refusal(UsagePage& page, std::uint32_t device, SlotRef slot, const Refused& what);

// Returns what one slot holds by its own record (0 for a free slot).
std::uint64_t held_bytes(const UsagePage& page, std::uint32_t device, std::uint32_t slot);

// Declares that importers in other processes may keep `bytes` of the slot alive: if the process dies, they stay charged
// until release_orphan(). Raise after reserve, lower before give_back; never above what is held.
void add_exported(UsagePage& page, std::uint32_t device, SlotRef slot, std::uint64_t bytes);
void sub_exported(UsagePage& page, std::uint32_t device, SlotRef slot, std::uint64_t bytes);

// Whether an account equals the sum of its slots. A page that only limiters write always balances, whichever process
// was killed in it.
struct Balance {
  bool certain;  // false: the page was being written; try again
  std::uint64_t used_bytes, slots_bytes;
};
// Checks one account. Only reads, never waits, and trusts no count or index of the page.
Balance balance_of(const UsagePage& page, std::uint32_t account);

// Call in a forked child before its first claim: frees locks held by threads that fork() did not copy.
void reset_locks_after_fork();

}  // namespace headgate::ledger
