// The memory accounts of a share (`device`: a device's, or host_account() of it): exact to the byte, whoever is killed
// whenever (life of an operation and the crash argument: account.cpp; model: models/ledger.pml).
//
// All functions are thread-safe and never allocate, block on another process, or fail other than as stated. A page may
// be hostile: arithmetic saturates and indices are checked, so a scribbled page can give wrong figures, never a crash.
#pragma once

#include <cstdint>

#include "guest/ledger/layout.hpp"

namespace headgate::ledger {

// A process's seat in the usage page, as claim() in slot.hpp gives it.
struct SlotRef {
  std::uint32_t slot = kNoSlot;
  std::uint32_t generation = 0;
};

struct Reservation {
  bool ok;
  std::uint64_t used_bytes;  // of the whole share: after the operation, or, refused, what was in use then
};

// Charges `bytes` to the share if used + bytes <= limit_bytes (kNoMemoryLimit: always). Refused, nothing has changed:
// a caller that gives up (rather than trims a pool and asks again) says so with note_refusal(). Reserve before the
// driver's allocation, give back after the driver's free. Refused too when the slot is not, or no longer, the caller's.
Reservation reserve(UsagePage& page, std::uint32_t device, SlotRef slot, std::uint64_t bytes,
                    std::uint64_t limit_bytes);

// Takes `bytes` off again; never more than the slot holds, nor 2^63 - 1 at once. Returns the bytes really given back.
std::uint64_t give_back(UsagePage& page, std::uint32_t device, SlotRef slot, std::uint64_t bytes);

// The same for a reservation, or a part of one, for which the driver gave nothing: the peak never was so high.
std::uint64_t unreserve(UsagePage& page, std::uint32_t device, SlotRef slot, std::uint64_t bytes);

// The driver gave what was reserved: what is in use now may be the most that ever was.
void note_peak(UsagePage& page, std::uint32_t device);
// The same of what is in use in all: with `residual_bytes` of the share, contexts and code, as they were measured last.
void note_in_use(UsagePage& page, std::uint32_t device, std::uint64_t residual_bytes);

// Charges without asking: for what exists already (contexts, code). May push the share over its limit, after which
// every reservation is refused. False when the slot is not the caller's.
bool charge(UsagePage& page, std::uint32_t device, SlotRef slot, std::uint64_t bytes);

// What the share uses now; one 8-byte load.
std::uint64_t used_bytes(const UsagePage& page, std::uint32_t device);

// The most it ever was with what the driver has given; what others have reserved and may not get is in it only where
// the driver gave at the same instant.
std::uint64_t peak_bytes(const UsagePage& page, std::uint32_t device);
// The same with contexts and code, as they were when it was noted.
std::uint64_t peak_in_use_bytes(const UsagePage& page, std::uint32_t device);

// What `headgate why` tells of a refusal, besides when it was and whom it met.
struct Refused {
  std::uint64_t asked_bytes = 0, used_bytes = 0, limit_bytes = kNoMemoryLimit;  // as they were then
  Denial by = Denial::limit;
};
void note_refusal(UsagePage& page, std::uint32_t device, SlotRef slot, const Refused& what);

// What one slot holds by its own books (0 for a free slot).
std::uint64_t held_bytes(const UsagePage& page, std::uint32_t device, std::uint32_t slot);

// Bytes that died processes had exported to others, still charged to the share.
std::uint64_t orphaned_bytes(const UsagePage& page, std::uint32_t device);

// States that `bytes` of what the slot holds may be kept alive by importers in other processes: should the process die,
// they stay charged until release_orphan(). Raise after reserve, lower before give_back; never more than is held.
void add_exported(UsagePage& page, std::uint32_t device, SlotRef slot, std::uint64_t bytes);
void sub_exported(UsagePage& page, std::uint32_t device, SlotRef slot, std::uint64_t bytes);

// A forked child calls this before its first own claim: a lock held by a thread that fork() did not copy is open again.
void reset_locks_after_fork();

}  // namespace headgate::ledger
