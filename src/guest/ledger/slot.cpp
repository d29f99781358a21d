#include "guest/ledger/slot.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "guest/bare/clock.hpp"
#include "guest/ledger/closing.hpp"
#include "guest/ledger/packing.hpp"

namespace headgate::ledger {
namespace {

std::uint64_t who_of(const Identity& identity) {
  return std::uint64_t{identity.pidns_inode} << 32 | identity.start_time;
}

std::uint32_t slots_end(const UsagePage& page) {
  return std::min(page.slots_seen.load(std::memory_order_acquire), kMaxSlots);
}

// Initializes the record of a slot that no other process may touch any more. Sequences never restart, so a reaper of
// the previous owner that slept meanwhile finds its step done. `settled` before `sequence`: in the other order, a kill
// in between would show the previous owner's last intent as ours.
void open_books(UsagePage& page, std::uint32_t device, std::uint32_t slot) {
  SlotDevice& books = page.slots[slot].devices[device];
  const Operation last = unpack_operation(load_half(page.memory[device].word.operation));
  std::uint64_t sequence =
      std::max({books.sequence.load(std::memory_order_acquire), books.settled.load(std::memory_order_acquire),
                books.done.load(std::memory_order_acquire)});
  if (last.slot == slot) sequence = std::max(sequence, last.sequence);
  put(books.exported_bytes, std::uint64_t{0}, "claim: exported");
  put(books.draining_bytes, std::uint64_t{0}, "claim: draining");
  put(books.residual_bytes, std::uint64_t{0}, "claim: residual");
  put(books.explained_bytes, std::uint64_t{0}, "claim: explained");
  put(books.launches, std::uint64_t{0}, "claim: launches");
  put(books.work_until_ns, std::int64_t{0}, "claim: work");
  put(books.waiting, std::uint32_t{0}, "claim: waiting");
  put(books.long_wait_since_ns, std::int64_t{0}, "claim: long wait");
  put(books.sm_percent, std::uint32_t{0}, "claim: thread percentage");
  put(books.moves, std::uint32_t{0}, "claim: moves");
  put(books.held_bytes[0], std::uint64_t{0}, "claim: held 0");
  put(books.held_bytes[1], std::uint64_t{0}, "claim: held 1");
  put(books.settled, sequence, "claim: settled");
  put(books.sequence, sequence, "claim: sequence");
}

void set_command(Slot& slot, const char* command) {
  step("claim: command");
  std::size_t length = 0;
  while (command != nullptr && length + 1 < sizeof slot.command && command[length] != '\0') ++length;
  char cut[sizeof slot.command] = {};
  if (length != 0) std::memcpy(cut, command, length);
  for (std::size_t i = 0; i < sizeof cut; ++i) __atomic_store_n(&slot.command[i], cut[i], __ATOMIC_RELEASE);
}

// Takes the slot from claiming to live. Fails if we were marked dead meanwhile, or the share is closing.
ClaimResult take_seat(UsagePage& page, std::uint32_t index, std::uint32_t generation, const Identity& identity,
                      const char* command, SlotRef& out) {
  Slot& slot = page.slots[index];
  each_account(page, [&](std::uint32_t account) { open_books(page, account, index); });
  set_command(slot, command);
  put(slot.frozen_since_ns, std::int64_t{0}, "claim: here");
  // After the swap to `claiming`: either a process that closes the share sees that slot, or we see its mark.
  const bool closing = page.closing.load(std::memory_order_seq_cst) != kShareOpen;
  const std::uint64_t claiming = pack(Life{SlotKind::claiming, generation, identity.pid});
  const Life next{closing ? SlotKind::dead : SlotKind::live, generation, identity.pid};
  if (!swap(slot.life, claiming, pack(next), "claim: live")) return ClaimResult::full;
  if (closing) {
    reap(page, index);
    return ClaimResult::closing;
  }
  out = {index, generation};
  return ClaimResult::claimed;
}

ClaimResult take_free_slot(UsagePage& page, const Identity& identity, const char* command, SlotRef& out) {
  for (std::uint32_t i = 0; i < kMaxSlots; ++i) {
    Slot& slot = page.slots[i];
    const std::uint64_t life = slot.life.load(std::memory_order_acquire);
    const Life now = unpack_life(life);
    if (now.kind != SlotKind::free) continue;
    raise(page.slots_seen, i + 1, "claim: seen");
    const std::uint32_t generation = (now.generation + 1) & kGenerationMask;
    const std::uint64_t who = slot.who.load(std::memory_order_acquire);
    const Life claiming{SlotKind::claiming, generation, identity.pid};
    if (!swap16(&slot, life, who, pack(claiming), who_of(identity), "claim: take")) continue;
    const ClaimResult result = take_seat(page, i, generation, identity, command, out);
    if (result != ClaimResult::full) return result;
  }
  return ClaimResult::full;
}

// exec() keeps pid and start time but closes all device descriptors: the earlier program's memory is gone.
void reap_own_past(UsagePage& page, const Identity& identity) {
  const std::uint32_t end = slots_end(page);
  for (std::uint32_t i = 0; i < end; ++i) {
    const SlotView seat = view(page, i);
    const bool ours = seat.identity.pid == identity.pid && seat.identity.pidns_inode == identity.pidns_inode &&
                      bare::same_start(seat.identity.start_time, identity.start_time);
    if (!ours || (seat.kind != SlotKind::live && seat.kind != SlotKind::claiming)) continue;
    if (mark_dead(page, {i, seat.generation})) reap(page, i);
  }
}

// The record of a dead slot, which no longer changes. The reaper's operation, last + 1, takes off what ends with the
// process; the release of exported bytes is last + 2.
struct Estate {
  std::uint64_t held, exported;  // exported: part of held
  std::uint64_t residual;
  std::uint64_t last;
  bool taken, released;  // whether those operations were applied
};

Estate estate_on(const UsagePage& page, std::uint32_t device, std::uint32_t index) {
  const SlotDevice& books = page.slots[index].devices[device];
  const std::uint64_t intent = books.sequence.load(std::memory_order_acquire);
  const std::uint64_t settled = books.settled.load(std::memory_order_acquire);
  std::uint64_t held = books.held_bytes[settled & 1].load(std::memory_order_acquire);
  const std::int64_t delta = books.delta_bytes.load(std::memory_order_acquire);
  const std::uint64_t exported = books.exported_bytes.load(std::memory_order_acquire);
  const std::uint64_t residual = books.residual_bytes.load(std::memory_order_acquire);
  if (intent == settled + 1 && applied(page, device, index, intent)) {
    held = delta >= 0 ? held + static_cast<std::uint64_t>(delta)
                      : held - std::min(held, static_cast<std::uint64_t>(0) - static_cast<std::uint64_t>(delta));
  }
  const std::uint64_t last = std::max(intent, settled);
  // Read after the intent: once the reaper's operation is applied, the intent looks applied too; held is then not used.
  const bool taken = applied(page, device, index, last + 1), released = applied(page, device, index, last + 2);
  return {held, std::min(exported, held), residual, last, taken, released};
}

bool is_empty(const OrphanBytes& left) { return left.charged == 0 && left.residual == 0; }

// Settles what slot `index` held on one account. Any number of processes may do this at once, each killed anywhere: all
// compute the same from a record that no longer changes, and only the first swap of an operation counts. Returns false
// if the slot was no longer dead after the read, or if the account could not be changed; then it stays dead.
bool reap_account(UsagePage& page, std::uint32_t account, std::uint32_t index, std::uint64_t dead, Remains remains,
                  bool& orphan) {
  const Estate estate = estate_on(page, account, index);
  // What we read is the dead owner's only if the slot has no new owner.
  if (page.slots[index].life.load(std::memory_order_acquire) != dead) return false;
  const bool drains = remains == Remains::draining && account < kMaxDevices;
  if (drains) orphan = orphan || (!estate.taken && (estate.held != estate.exported || estate.residual != 0));
  else if (!take_off(page, account, {index, estate.last + 1}, estate.held - estate.exported)) return false;
  // A slot that died while being claimed still shows the previous owner's exports, long released.
  orphan = orphan || (estate.exported != 0 && !estate.released);
  return true;
}

}  // namespace

bool take_off(UsagePage& page, std::uint32_t device, Operation operation, std::uint64_t bytes) {
  MemoryAccount& account = page.memory[device];
  for (int tries = 0; tries < kMaxTries; ++tries) {
    const std::uint64_t last = load_half(account.word.operation);
    const std::uint64_t used = load_half(account.word.used_bytes);
    if (applied(page, device, operation.slot, operation.sequence)) return true;
    raise(account.peak_bytes, used, "reap: peak");
    if (const Operation other = unpack_operation(last); other.slot != operation.slot) help(page, device, other);
    if (swap16(&account.word, used, last, used - std::min(used, bytes), pack(operation), "reap: swap")) return true;
  }
  return false;
}

ClaimResult claim(UsagePage& page, const Identity& identity, const char* command, SlotRef& out) {
  reap_own_past(page, identity);
  const ClaimResult first = take_free_slot(page, identity, command, out);
  if (first != ClaimResult::full) return first;
  // Free slots matter more than waiting until the driver has freed what dead processes held.
  const bool given_up = give_up_teardowns(page, std::numeric_limits<std::int64_t>::max());
  if (reap_dead(page) == 0 && !given_up) return first;
  return take_free_slot(page, identity, command, out);
}

void reap_former_program(UsagePage& page) {
  bool lacked = false;
  const Identity self = own_identity(&lacked);
  if (!lacked) reap_own_past(page, self);
}

void release(UsagePage& page, SlotRef ref) {
  if (ref.slot >= kMaxSlots) return;
  // Take all our locks, in order: no thread of ours is in an operation when the slot dies, and none starts later.
  for (std::uint32_t device = 0; device < kMaxAccounts; ++device) process_locks[device].lock();
  const bool dead = mark_dead(page, ref);
  for (std::uint32_t device = kMaxAccounts; device-- > 0;) process_locks[device].unlock();
  if (dead) reap(page, ref.slot);
}

SlotView view(const UsagePage& page, std::uint32_t index) {
  SlotView out{};
  if (index >= kMaxSlots) return out;
  const Slot& slot = page.slots[index];
  for (int tries = 0; tries < 100; ++tries) {
    const std::uint64_t before = slot.life.load(std::memory_order_acquire);
    const std::uint64_t who = slot.who.load(std::memory_order_acquire);
    char command[sizeof slot.command];
    for (std::size_t i = 0; i < sizeof command; ++i) command[i] = __atomic_load_n(&slot.command[i], __ATOMIC_ACQUIRE);
    if (slot.life.load(std::memory_order_acquire) != before) continue;
    const Life life = unpack_life(before);
    out.kind = life.kind;
    out.generation = life.generation;
    out.identity = {life.pid, static_cast<std::uint32_t>(who >> 32), static_cast<std::uint32_t>(who)};
    std::memcpy(out.command, command, sizeof command - 1);
    break;
  }
  return out;
}

bool mark_dead(UsagePage& page, SlotRef ref) {
  if (ref.slot >= kMaxSlots) return false;
  std::atomic<std::uint64_t>& life = page.slots[ref.slot].life;
  const std::uint64_t word = life.load(std::memory_order_acquire);
  Life now = unpack_life(word);
  if (now.generation != ref.generation || (now.kind != SlotKind::live && now.kind != SlotKind::claiming)) return false;
  now.kind = SlotKind::dead;
  return swap(life, word, pack(now), "mark: dead");
}

void reap(UsagePage& page, std::uint32_t index, Remains remains) {
  if (index >= kMaxSlots) return;
  Slot& slot = page.slots[index];
  const std::uint64_t dead = slot.life.load(std::memory_order_acquire);
  Life now = unpack_life(dead);
  if (now.kind != SlotKind::dead) return;
  bool orphan = false, ours = true;
  each_account(
      page, [&](std::uint32_t account) { ours = ours && reap_account(page, account, index, dead, remains, orphan); });
  if (!ours) return;
  // Raised, never lowered: a reaper that slept until the slot was another's orphan must not shorten its time.
  if (orphan) raise(slot.died_ns, bare::host_ns(), "reap: died");
  now.kind = orphan ? SlotKind::orphan : SlotKind::free;
  swap(slot.life, dead, pack(now), "reap: free");
  step("reap: end");
}

OrphanBytes orphan_on(const UsagePage& page, std::uint32_t device, std::uint32_t slot) {
  const Estate estate = estate_on(page, device, slot);
  OrphanBytes left{};
  if (!estate.taken) left = {0, estate.held - estate.exported, device < kMaxDevices ? estate.residual : 0};
  // Once taken, held no longer counts (estate_on), except what was exported of it.
  const std::uint64_t exported = page.slots[slot].devices[device].exported_bytes.load(std::memory_order_acquire);
  left.charged = left.torn + (estate.released ? 0 : estate.taken ? exported : estate.exported);
  return left;
}

std::uint64_t orphan_bytes(const UsagePage& page, std::uint32_t device, std::uint32_t slot) {
  return orphan_on(page, device, slot).charged;
}

namespace {

// Applies an orphan's operations on one account, each once and in order: the second makes the first look applied.
void release_on(UsagePage& page, SlotRef ref, std::uint32_t account, bool exported_too) {
  if (ref.slot >= kMaxSlots || account >= kMaxAccounts) return;
  std::atomic<std::uint64_t>& life = page.slots[ref.slot].life;
  const std::uint64_t orphan = life.load(std::memory_order_acquire);
  Life now = unpack_life(orphan);
  if (now.kind != SlotKind::orphan || now.generation != ref.generation) return;
  const Estate estate = estate_on(page, account, ref.slot);
  const OrphanBytes left = orphan_on(page, account, ref.slot);
  if (life.load(std::memory_order_acquire) != orphan) return;
  if (!estate.taken && !take_off(page, account, {ref.slot, estate.last + 1}, estate.held - estate.exported)) return;
  if (exported_too) take_off(page, account, {ref.slot, estate.last + 2}, left.charged - left.torn);
  bool gone = true;
  each_account(page, [&](std::uint32_t other) { gone = gone && is_empty(orphan_on(page, other, ref.slot)); });
  if (!gone) return;
  now.kind = SlotKind::free;
  swap(life, orphan, pack(now), "orphan: free");
}

}  // namespace

void release_torn_on(UsagePage& page, SlotRef ref, std::uint32_t device) { release_on(page, ref, device, false); }

void release_orphan_on(UsagePage& page, SlotRef ref, std::uint32_t device) { release_on(page, ref, device, true); }

bool give_up_teardowns(UsagePage& page, std::int64_t now_ns) {
  bool any = false;
  each_slot(page, [&](const SlotAt& at) {
    if (at.kind != SlotKind::orphan) return;
    // A death in the future is from before the last reboot.
    const std::int64_t died_ns = at.slot.died_ns.load(std::memory_order_acquire);
    if (now_ns >= died_ns && now_ns - died_ns < kTeardownNs) return;
    std::uint64_t torn = 0;
    each_account(page, [&](std::uint32_t account) {
      const OrphanBytes left = orphan_on(page, account, at.index);
      if (left.torn == 0 && left.residual == 0) return;
      torn += left.torn;
      any = true;
      release_torn_on(page, {at.index, at.generation}, account);
    });
    if (torn != 0) page.teardowns_given_up.fetch_add(torn, std::memory_order_relaxed);
  });
  return any;
}

std::uint32_t reap_dead(UsagePage& page, Remains remains) {
  give_up_teardowns(page, bare::host_ns());
  const std::uint32_t here = own_identity().pidns_inode;
  const std::uint32_t end = slots_end(page);
  std::uint32_t reaped = 0;
  for (std::uint32_t i = 0; i < end; ++i) {
    const SlotView seat = view(page, i);
    const bool seated = seat.kind == SlotKind::live || seat.kind == SlotKind::claiming;
    if (seated && !is_alive(seat.identity, here)) mark_dead(page, {i, seat.generation});
    else if (seat.kind != SlotKind::dead) continue;
    reap(page, i, remains);
    ++reaped;
  }
  return reaped;
}

std::uint32_t live_slots(const UsagePage& page) {
  std::uint32_t live = 0;
  each_slot(page, [&](const SlotAt& at) { live += at.kind == SlotKind::live || at.kind == SlotKind::claiming; });
  return live;
}

}  // namespace headgate::ledger
