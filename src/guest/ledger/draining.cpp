#include "guest/ledger/draining.hpp"

#include <algorithm>

#include "guest/bare/saturating.hpp"
#include "guest/ledger/packing.hpp"
#include "guest/ledger/slot.hpp"

namespace headgate::ledger {
namespace {

struct Amount {
  std::uint64_t bytes, torn;
};

Amount draining_of(const UsagePage& page, const SlotAt& at, std::uint32_t device) {
  switch (at.kind) {
    case SlotKind::live: return {at.slot.devices[device].draining_bytes.load(std::memory_order_acquire), 0};
    case SlotKind::orphan: {
      const OrphanBytes left = orphan_on(page, device, at.index);
      return {bare::saturating_add(left.charged, left.residual), bare::saturating_add(left.torn, left.residual)};
    }
    default: return {0, 0};
  }
}

}  // namespace

void see_draining(const UsagePage& page, std::uint32_t device, Draining& out) {
  out = {};
  if (device >= kMaxDevices) return;
  each_slot(page, [&](const SlotAt& at) {
    const Amount amount = draining_of(page, at, device);
    out.life[at.index] = pack(Life{at.kind, at.generation, at.pid});
    out.of_slot[at.index] = amount.bytes;
    out.torn[at.index] = amount.torn;
    out.bytes = bare::saturating_add(out.bytes, amount.bytes);
  });
}

std::uint64_t draining_bytes(const UsagePage& page, std::uint32_t device) {
  if (device >= kMaxDevices) return 0;
  std::uint64_t sum = 0;
  each_slot(page, [&](const SlotAt& at) { sum = bare::saturating_add(sum, draining_of(page, at, device).bytes); });
  return sum;
}

Torn torn_on(const UsagePage& page, std::uint32_t device) {
  Torn sum{};
  if (device >= kMaxDevices) return sum;
  each_slot(page, [&](const SlotAt& at) {
    if (at.kind != SlotKind::orphan) return;
    const OrphanBytes left = orphan_on(page, device, at.index);
    if (left.torn == 0 && left.residual == 0) return;
    sum.bytes = bare::saturating_add(sum.bytes, bare::saturating_add(left.torn, left.residual));
    sum.residual = bare::saturating_add(sum.residual, left.residual);
    sum.died_ns = std::max(sum.died_ns, at.slot.died_ns.load(std::memory_order_acquire));
  });
  return sum;
}

void add_draining(UsagePage& page, std::uint32_t device, SlotRef slot, std::uint64_t bytes) {
  if (device >= kMaxDevices || slot.slot >= kMaxSlots) return;
  const bare::Locked lock(process_locks[device]);
  SlotDevice& books = page.slots[slot.slot].devices[device];
  const std::uint64_t now = books.draining_bytes.load(std::memory_order_relaxed);
  const std::uint64_t exported = books.exported_bytes.load(std::memory_order_relaxed);
  put(books.draining_bytes, std::min<std::uint64_t>(now > ~0ull - bytes ? exported : now + bytes, exported),
      "draining: add");
}

std::uint64_t settle_draining(UsagePage& page, std::uint32_t device, SlotRef own, const Draining& seen,
                              std::uint64_t gone) {
  if (device >= kMaxDevices) return 0;
  for (std::uint32_t i = 0; i < kMaxSlots && gone != 0; ++i) {
    const Life life = unpack_life(seen.life[i]);
    if (life.kind != SlotKind::orphan || seen.of_slot[i] == 0) continue;
    // Another process may have released it before us: no harm. What ends with the process (torn) comes first.
    const std::uint64_t torn = seen.torn[i], exported = seen.of_slot[i] - torn;
    if (torn > gone) continue;
    gone -= torn;
    if (exported > gone) {
      if (torn != 0) release_torn_on(page, {i, life.generation}, device);
      continue;
    }
    gone -= exported;
    release_orphan_on(page, {i, life.generation}, device);
  }
  if (own.slot >= kMaxSlots) return 0;
  for (std::uint32_t i = 0; i < own.slot; ++i) {
    if (unpack_life(seen.life[i]).kind == SlotKind::live) gone -= std::min(gone, seen.of_slot[i]);
  }
  const std::uint64_t mine = std::min(gone, seen.of_slot[own.slot]);
  if (mine == 0) return 0;
  std::uint64_t less = 0;
  {
    const bare::Locked lock(process_locks[device]);
    SlotDevice& books = page.slots[own.slot].devices[device];
    const std::uint64_t now = books.draining_bytes.load(std::memory_order_relaxed);
    // Another thread of this process may already have settled part of it.
    less = now < seen.of_slot[own.slot] ? std::min(mine, now - std::min(now, seen.of_slot[own.slot] - mine)) : mine;
    if (less != 0) put(books.draining_bytes, now - less, "draining: settle");
  }
  sub_exported(page, device, own, less);
  return give_back(page, device, own, less);
}

}  // namespace headgate::ledger
