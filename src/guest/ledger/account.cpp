// An operation of slot p, with sequence k, on one device's account word W = {used, (slot, sequence)}:
//
//   delta = n; sequence = k                  the intent, before any effect is visible
//   done of W's operation = its sequence     help: record the operation in W as done before overwriting W
//   W: {used, x} -> {used + n, (p, k)}       the one step that counts
//   held[k & 1] = held[(k - 1) & 1] + n; settled = k
//
// So an operation that was ever in W is still there, or its slot's `done` has reached it. If the owner dies between any
// two stores, a reaper can tell whether the bytes were taken. There are two `held` words because the current one must
// stay intact while the next is written.
#include "guest/ledger/account.hpp"
#include "guest/bare/clock.hpp"

#include <time.h>

#include <algorithm>
#include <cstddef>

#include "guest/ledger/oom_wait.hpp"
#include "guest/ledger/packing.hpp"
#include "guest/ledger/slot.hpp"

namespace headgate::ledger {
namespace {

bool is_ours(const UsagePage& page, SlotRef ref) {
  if (ref.slot >= kMaxSlots) return false;
  const Life life = unpack_life(page.slots[ref.slot].life.load(std::memory_order_acquire));
  return life.kind == SlotKind::live && life.generation == ref.generation;
}

// Returns whether used + bytes stays within limit, without wrapping.
bool fits(std::uint64_t used, std::uint64_t bytes, std::uint64_t limit) {
  return used <= limit && bytes <= limit - used;
}

std::uint64_t held_now(const SlotDevice& books) {
  const std::uint64_t settled = books.settled.load(std::memory_order_acquire);
  return books.held_bytes[settled & 1].load(std::memory_order_acquire);
}

std::uint64_t shifted(std::uint64_t value, std::int64_t delta) {
  if (delta >= 0) return value + static_cast<std::uint64_t>(delta);
  const std::uint64_t less = static_cast<std::uint64_t>(-delta);
  return value > less ? value - less : 0;
}

// Call with the process's lock for the device. Only growth is checked against the limit. `had`: the driver allocated
// what is in use now, so it counts for the peak.
Reservation apply(UsagePage& page, std::uint32_t device, std::uint32_t slot, std::int64_t delta, std::uint64_t limit,
                  bool had) {
  SlotDevice& books = page.slots[slot].devices[device];
  MemoryAccount& account = page.memory[device];
  const std::uint64_t settled = books.settled.load(std::memory_order_relaxed);
  const std::uint64_t sequence = settled + 1;
  put(books.delta_bytes, delta, "apply: delta");
  put(books.sequence, sequence, "apply: sequence");
  std::uint64_t used;
  for (;;) {
    const std::uint64_t last = load_half(account.word.operation);
    used = load_half(account.word.used_bytes);
    if (delta > 0 && !fits(used, static_cast<std::uint64_t>(delta), limit)) return {false, used};
    if (had) raise(account.peak_bytes, used, "apply: peak");
    // Our own previous operation needs no help: from here on W names a later one of ours.
    if (const Operation other = unpack_operation(last); other.slot != slot) help(page, device, other);
    if (swap16(&account.word, used, last, shifted(used, delta), pack(Operation{slot, sequence}), "apply: swap")) break;
  }
  put(books.held_bytes[sequence & 1], shifted(books.held_bytes[settled & 1].load(std::memory_order_relaxed), delta),
      "apply: held");
  put(books.settled, sequence, "apply: settled");
  step("apply: end");
  return {true, shifted(used, delta)};
}

Reservation take(UsagePage& page, std::uint32_t device, SlotRef ref, std::uint64_t bytes, std::uint64_t limit) {
  if (device >= kMaxAccounts) return {false, 0};
  const std::uint64_t used = used_bytes(page, device);
  // Operations add signed counts, so a slot must not hold more than INT64_MAX. No GPU has 8 EiB.
  limit = std::min<std::uint64_t>(limit, INT64_MAX);
  if (!fits(used, bytes, limit)) return {false, used};
  const bare::Locked lock(process_locks[device]);
  if (!is_ours(page, ref)) return {false, used};
  return apply(page, device, ref.slot, static_cast<std::int64_t>(bytes), limit, false);
}

std::uint64_t take_back(UsagePage& page, std::uint32_t device, SlotRef slot, std::uint64_t bytes, bool had) {
  if (device >= kMaxAccounts) return 0;
  const bare::Locked lock(process_locks[device]);
  if (!is_ours(page, slot)) return 0;
  const std::uint64_t held = std::min<std::uint64_t>(held_now(page.slots[slot.slot].devices[device]), INT64_MAX);
  const std::uint64_t less = std::min(bytes, held);
  // Freed bytes have no importer: with more exported than held, a reaper would keep bytes that do not exist.
  std::atomic<std::uint64_t>& exported = page.slots[slot.slot].devices[device].exported_bytes;
  if (exported.load(std::memory_order_relaxed) > held - less) put(exported, held - less, "give back: exported");
  if (less == 0) return 0;
  apply(page, device, slot.slot, -static_cast<std::int64_t>(less), kNoMemoryLimit, had);
  tell_released(page);
  return less;
}

}  // namespace

constinit bare::ShortLock process_locks[kMaxAccounts];

void reset_locks_after_fork() {
  for (bare::ShortLock& lock : process_locks) lock.reset();
}

Reservation reserve(UsagePage& page, std::uint32_t device, SlotRef slot, std::uint64_t bytes,
                    std::uint64_t limit_bytes) {
  return take(page, device, slot, bytes, limit_bytes);
}

bool charge(UsagePage& page, std::uint32_t device, SlotRef slot, std::uint64_t bytes) {
  const bool charged = take(page, device, slot, bytes, kNoMemoryLimit).ok;
  if (charged) note_peak(page, device);
  return charged;
}

std::uint64_t give_back(UsagePage& page, std::uint32_t device, SlotRef slot, std::uint64_t bytes) {
  return take_back(page, device, slot, bytes, true);
}

std::uint64_t unreserve(UsagePage& page, std::uint32_t device, SlotRef slot, std::uint64_t bytes) {
  return take_back(page, device, slot, bytes, false);
}

void note_peak(UsagePage& page, std::uint32_t device) {
  if (device < kMaxAccounts) raise(page.memory[device].peak_bytes, used_bytes(page, device), "peak");
}

void note_in_use(UsagePage& page, std::uint32_t device, std::uint64_t residual_bytes) {
  std::uint64_t all = 0;
  if (device >= kMaxAccounts || __builtin_add_overflow(used_bytes(page, device), residual_bytes, &all)) return;
  raise(page.memory[device].peak_in_use_bytes, all, "peak: in use");
}

std::uint64_t used_bytes(const UsagePage& page, std::uint32_t device) {
  return device < kMaxAccounts ? load_half(page.memory[device].word.used_bytes) : 0;
}

std::uint64_t peak_bytes(const UsagePage& page, std::uint32_t device) {
  return device >= kMaxAccounts ? 0 : page.memory[device].peak_bytes.load(std::memory_order_acquire);
}

std::uint64_t peak_in_use_bytes(const UsagePage& page, std::uint32_t device) {
  return device >= kMaxAccounts ? 0 : page.memory[device].peak_in_use_bytes.load(std::memory_order_acquire);
}

std::uint64_t held_bytes(const UsagePage& page, std::uint32_t device, std::uint32_t slot) {
  if (device >= kMaxAccounts || slot >= kMaxSlots) return 0;
  switch (unpack_life(page.slots[slot].life.load(std::memory_order_acquire)).kind) {
    case SlotKind::live:
    case SlotKind::dead: return held_now(page.slots[slot].devices[device]);
    case SlotKind::orphan: return orphan_bytes(page, device, slot);
    default: return 0;
  }
}

void note_refusal(UsagePage& page, std::uint32_t device, SlotRef slot, const Refused& what) {
  if (device >= kMaxAccounts) return;
  MemoryAccount& account = page.memory[device];
  account.last_refusal_bytes.store(what.asked_bytes, std::memory_order_relaxed);
  account.last_refusal_used.store(what.used_bytes, std::memory_order_relaxed);
  account.last_refusal_limit.store(what.limit_bytes, std::memory_order_relaxed);
  account.last_refusal_pid.store(pid_of(page, slot), std::memory_order_relaxed);
  account.last_refusal_ns.store(static_cast<std::uint64_t>(bare::now_ns(CLOCK_REALTIME)), std::memory_order_relaxed);
  account.last_denial.store(what.by, std::memory_order_relaxed);
  auto& count = what.by == Denial::limit         ? account.refusals
                : what.by == Denial::device_full ? account.refusals_device_full
                                                 : account.refusals_policy;
  count.fetch_add(1, std::memory_order_release);
}

void add_exported(UsagePage& page, std::uint32_t device, SlotRef slot, std::uint64_t bytes) {
  if (device >= kMaxAccounts) return;
  const bare::Locked lock(process_locks[device]);
  if (!is_ours(page, slot)) return;
  SlotDevice& books = page.slots[slot.slot].devices[device];
  const std::uint64_t held = held_now(books);
  const std::uint64_t now = std::min(books.exported_bytes.load(std::memory_order_relaxed), held);
  put(books.exported_bytes, now + std::min(bytes, held - now), "exported: add");
}

void sub_exported(UsagePage& page, std::uint32_t device, SlotRef slot, std::uint64_t bytes) {
  if (device >= kMaxAccounts) return;
  const bare::Locked lock(process_locks[device]);
  if (!is_ours(page, slot)) return;
  SlotDevice& books = page.slots[slot.slot].devices[device];
  const std::uint64_t now = books.exported_bytes.load(std::memory_order_relaxed);
  put(books.exported_bytes, now - std::min(bytes, now), "exported: sub");
}

}  // namespace headgate::ledger
