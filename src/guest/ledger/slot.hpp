// Slots: which processes sit in a share, and how their bytes come back when they die.
//
// A slot is keyed by pid namespace, pid and start time, never by pid alone. Anybody who maps the page may mark and
// reap; any number at once, each of them killed at any store, leave the account exact.
#pragma once

#include <cstdint>

#include "guest/ledger/account.hpp"
#include "guest/ledger/layout.hpp"

namespace headgate::ledger {

struct Identity {
  std::uint32_t pid;          // in the namespace below
  std::uint32_t pidns_inode;  // 0 where /proc is missing and Linux is older than 6.11
  std::uint32_t start_time;   // bare::host_start_time() of /proc/PID/stat; 0 where that is missing
};
// Of the calling process. Opens /proc/self/stat and ns/pid; restores errno. `lacked` is set where it could not look for
// want of a descriptor or of memory: then what is 0 says nothing, and nobody may claim in that name.
Identity own_identity(bool* lacked = nullptr);

enum class ClaimResult : std::uint32_t {
  claimed,
  full,     // every slot is taken by a living process
  closing,  // the share is being removed: open or make it anew
  unnamed,  // own_identity() lacked something: of claim_for_self() only
};
// Takes a free slot. First reaps what an earlier program of the same process (before exec) left behind; if no slot is
// free, reaps the dead. `command` is cut to 15 bytes.
ClaimResult claim(UsagePage& page, const Identity& identity, const char* command, SlotRef& out);

// claim() for the calling process, under its own name.
ClaimResult claim_for_self(UsagePage& page, SlotRef& out);
// For a process that has no slot: gives back the one that an earlier program of it has left behind by calling exec().
void reap_former_program(UsagePage& page);

// Orderly leave: waits for this process's own operations on the page, gives everything back, frees the slot. Calls with
// this slot afterwards are refused. Does nothing if the slot is not `slot`'s any more.
void release(UsagePage& page, SlotRef slot);

struct SlotView {
  SlotKind kind;
  std::uint32_t generation;
  Identity identity;
  char command[16];  // always terminated
};
// A consistent copy; kind free for an index out of range.
SlotView view(const UsagePage& page, std::uint32_t slot);

// live or claiming -> dead. The caller knows that the process has made its last store. False if the slot has moved on.
bool mark_dead(UsagePage& page, SlotRef slot);

// What of a dead process may still be on the GPU: nothing, as the caller knows, or all until its driver has taken it
// down.
enum class Remains : std::uint32_t { none, draining };

// A process's memory lasts this long after its death was seen, where nobody can see it gone before.
inline constexpr std::int64_t kTeardownNs = 10'000'000'000;

// Gives back what a dead slot held and frees it; does nothing in any other state. Exported bytes stay, as an orphan; so
// do all others on a GPU, and the residual, where the remains are draining. Host memory goes at once.
void reap(UsagePage& page, std::uint32_t slot, Remains remains = Remains::none);

// Gives an orphan's bytes back, once the driver shows that they are gone, and frees the slot.
void release_orphan(UsagePage& page, SlotRef slot);
// Of one device alone; the slot is free after the last.
void release_orphan_on(UsagePage& page, SlotRef slot, std::uint32_t device);
// The part alone that goes with its process: all but the exported bytes. Its residual with it.
void release_torn_on(UsagePage& page, SlotRef slot, std::uint32_t device);
// Of all orphans whose time is up by now_ns (bare::host_ns()), counted in the page; true if there were any.
bool give_up_teardowns(UsagePage& page, std::int64_t now_ns);

// What an orphan still has on a device: charged to the account, of that what goes with its process, and the residual
// besides.
struct OrphanBytes {
  std::uint64_t charged, torn, residual;
};
OrphanBytes orphan_on(const UsagePage& page, std::uint32_t device, std::uint32_t slot);
// Charged alone.
std::uint64_t orphan_bytes(const UsagePage& page, std::uint32_t device, std::uint32_t slot);

// Whether the process still may store into the page. Processes of another pid namespace are taken for alive.
bool is_alive(const Identity& identity, std::uint32_t own_pidns_inode);

// Reaps every slot whose process is gone, in our pid namespace, and gives up teardowns that are overdue. Returns how
// many. Some system calls a slot: for slow paths (claim, a refusal, a view), never for a launch.
std::uint32_t reap_dead(UsagePage& page, Remains remains = Remains::none);

// Slots that are live or being claimed.
std::uint32_t live_slots(const UsagePage& page);

}  // namespace headgate::ledger
