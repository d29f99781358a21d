
#include <algorithm>

#include "guest/ledger/account.hpp"
#include "guest/ledger/packing.hpp"
#include "guest/ledger/slot.hpp"

namespace headgate::ledger {
namespace {

// What one slot contributes to the account, and every word that changes with it.
struct Part {
  bool certain = true;
  std::uint64_t bytes = 0, life = 0, sequence = 0, settled = 0;
  bool operator==(const Part&) const = default;
};

Part part_of(const UsagePage& page, std::uint32_t account, std::uint32_t index) {
  const Slot& slot = page.slots[index];
  const SlotDevice& books = slot.devices[account];
  Part part;
  part.life = slot.life.load(std::memory_order_acquire);
  part.sequence = books.sequence.load(std::memory_order_acquire);
  part.settled = books.settled.load(std::memory_order_acquire);
  switch (unpack_life(part.life).kind) {
    case SlotKind::free: break;
    case SlotKind::orphan: part.bytes = orphan_bytes(page, account, index); break;
    case SlotKind::live: {
      // An intent that is not settled was refused or is in progress. Both look the same, except whether it was applied.
      const bool open = part.sequence == part.settled + 1 && applied(page, account, index, part.sequence);
      // `settled` was read later and may be ahead, but `sequence` is never two intents ahead of it.
      part.certain = !open && part.settled <= part.sequence;
      part.bytes = books.held_bytes[part.settled & 1].load(std::memory_order_acquire);
      break;
    }
    default: part.certain = false; break;  // being claimed or reaped
  }
  return part;
}

}  // namespace

Balance balance_of(const UsagePage& page, std::uint32_t account) {
  if (account >= kMaxAccounts) return {false, 0, 0};
  const std::uint32_t end = std::min(page.slots_seen.load(std::memory_order_acquire), kMaxSlots);
  const std::uint64_t operation = load_half(page.memory[account].word.operation);
  const std::uint64_t used = load_half(page.memory[account].word.used_bytes);
  std::uint64_t sum = 0;
  Part parts[kMaxSlots];
  for (std::uint32_t i = 0; i < end; ++i) {
    parts[i] = part_of(page, account, i);
    if (!parts[i].certain) return {false, used, 0};
    sum += parts[i].bytes;
  }
  // The values are of one moment if nothing has changed since.
  for (std::uint32_t i = 0; i < end; ++i)
    if (part_of(page, account, i) != parts[i]) return {false, used, sum};
  const bool still = load_half(page.memory[account].word.operation) == operation &&
                     load_half(page.memory[account].word.used_bytes) == used &&
                     std::min(page.slots_seen.load(std::memory_order_acquire), kMaxSlots) == end;
  return {still, used, sum};
}

}  // namespace headgate::ledger
