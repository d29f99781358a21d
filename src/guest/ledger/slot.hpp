// Slots: which processes are in a share, and how their bytes come back when they die.
//
// A slot is keyed by pid namespace, pid and start time, never by pid alone. Any process that maps the page may mark and
// reap. Any number at once, each killed at any store, leave the account exact.
#pragma once

#include <cstdint>

#include "guest/ledger/account.hpp"
#include "guest/ledger/layout.hpp"

namespace headgate::ledger {

struct Identity {
  std::uint32_t pid;          // in the namespace below
  std::uint32_t pidns_inode;  // 0 if /proc is missing and Linux is older than 6.11
  std::uint32_t start_time;   // bare::host_start_time() of /proc/PID/stat; 0 if that is missing
};
// Returns the calling process's identity, from /proc/self/stat and ns/pid. Restores errno. Sets `lacked` if it had no
// descriptor or memory to look: then zero fields are unknown, and the identity must not be used to claim.
Identity own_identity(bool* lacked = nullptr);

enum class ClaimResult : std::uint32_t {
  claimed,
  full,     // all slots belong to living processes
  closing,  // the share is being removed: open or create it again
  unnamed,  // own_identity() lacked a resource; only from claim_for_self()
};
// Takes a free slot. First reaps the slot of an earlier program of the same process (before exec); if no slot is free,
// reaps dead processes. `command` is cut to 15 bytes.
ClaimResult claim(UsagePage& page, const Identity& identity, const char* command, SlotRef& out);

// Calls claim() for the calling process, under its own name.
ClaimResult claim_for_self(UsagePage& page, SlotRef& out);
// For a process without a slot: gives back the slot that its previous program left by calling exec().
void reap_former_program(UsagePage& page);

// Leaves in order: waits for this process's operations on the page, gives all back, frees the slot. Later calls with
// this slot are refused. Does nothing if the slot is no longer `slot`'s.
void release(UsagePage& page, SlotRef slot);

struct SlotView {
  SlotKind kind;
  std::uint32_t generation;
  Identity identity;
  char command[16];  // always terminated
};
// A slot's life word.
inline constexpr std::uint32_t kGenerationMask = (1u << 28) - 1;
struct Life {
  SlotKind kind;
  std::uint32_t generation;
  std::uint32_t pid;
};
inline std::uint64_t pack(Life life) {
  return std::uint64_t{life.pid} << 32 | std::uint64_t{life.generation & kGenerationMask} << 4 |
         static_cast<std::uint32_t>(life.kind);
}
// Treats a kind that we never write as dead: reaping makes a corrupted slot usable again.
inline Life unpack_life(std::uint64_t word) {
  const auto kind = static_cast<SlotKind>(word & 0xf);
  return {kind > SlotKind::orphan ? SlotKind::dead : kind, static_cast<std::uint32_t>(word >> 4) & kGenerationMask,
          static_cast<std::uint32_t>(word >> 32)};
}

// Returns the process's pid, as its namespace has it; 0 without a slot.
inline std::uint32_t pid_of(const UsagePage& page, SlotRef slot) {
  return slot.slot < kMaxSlots ? unpack_life(page.slots[slot.slot].life.load(std::memory_order_acquire)).pid : 0;
}

// One slot at one moment; what else it holds may be of its next owner.
struct SlotAt {
  std::uint32_t index;
  const Slot& slot;
  SlotKind kind;
  std::uint32_t generation, pid;
};
// Calls act(SlotAt) for each slot that was ever taken.
template <typename Act>
void each_slot(const UsagePage& page, Act act) {
  const std::uint32_t seen = page.slots_seen.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < seen && i < kMaxSlots; ++i) {
    const Life life = unpack_life(page.slots[i].life.load(std::memory_order_acquire));
    act(SlotAt{i, page.slots[i], life.kind, life.generation, life.pid});
  }
}

// Returns a consistent copy; kind free for an index out of range.
SlotView view(const UsagePage& page, std::uint32_t slot);

// Marks live or claiming as dead. The caller knows the process has made its last store. False if the slot has moved on.
bool mark_dead(UsagePage& page, SlotRef slot);

// What of a dead process may still be on the GPU: nothing, as the caller knows, or everything until the driver frees
// it.
enum class Remains : std::uint32_t { none, draining };

// How long a dead process's memory counts after its death was seen, if it cannot be seen gone earlier.
inline constexpr std::int64_t kTeardownNs = 10'000'000'000;

// Gives back what a dead slot held and frees it; does nothing in another state. Exported bytes stay, as an orphan. With
// draining remains, the other bytes on a GPU and the residual stay too. Host memory is given back at once.
void reap(UsagePage& page, std::uint32_t slot, Remains remains = Remains::none);

// Gives back an orphan's bytes on one device once the driver shows that they are gone; the last one frees the slot.
void release_orphan_on(UsagePage& page, SlotRef slot, std::uint32_t device);
// Releases only the part that ends with its process: all but the exported bytes, with its residual.
void release_torn_on(UsagePage& page, SlotRef slot, std::uint32_t device);
// Does so for all orphans that are overdue at now_ns (bare::host_ns()), counted in the page. Returns whether any were.
bool give_up_teardowns(UsagePage& page, std::int64_t now_ns);

// What an orphan still has on a device: charged to the account, the part of it that ends with its process, and the
// residual.
struct OrphanBytes {
  std::uint64_t charged, torn, residual;
};
OrphanBytes orphan_on(const UsagePage& page, std::uint32_t device, std::uint32_t slot);
// Returns the charged bytes alone.
std::uint64_t orphan_bytes(const UsagePage& page, std::uint32_t device, std::uint32_t slot);

// Returns whether the process may still store into the page. Processes of another pid namespace count as alive.
bool is_alive(const Identity& identity, std::uint32_t own_pidns_inode);

// Reaps all slots of dead processes in our pid namespace, and gives up overdue teardowns. Returns the number reaped.
// Makes system calls for each slot: for slow paths (claim, refusal, view), never for a launch.
std::uint32_t reap_dead(UsagePage& page, Remains remains = Remains::none);

// Returns the number of slots that are live or being claimed.
std::uint32_t live_slots(const UsagePage& page);

}  // namespace headgate::ledger
