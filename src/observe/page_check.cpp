#include "observe/page_check.hpp"

#include <algorithm>

#include "base/saturating_math.hpp"
#include "guest/ledger/account.hpp"

namespace headgate::observe {
namespace {

constexpr std::int64_t kDisagreesNs = 1'500'000'000;
constexpr std::uint32_t kDisagreeingLooks = 3;

using std::to_string;

template <std::size_t kSize>
bool is_written(const std::uint8_t (&reserved)[kSize]) {
  const volatile std::uint8_t* const bytes = reserved;  // each byte is read once
  bool written = false;
  for (std::size_t i = 0; i < kSize; ++i) written = bytes[i] != 0 || written;
  return written;
}

template <typename T>
T copy_of(const T& word) {
  return __atomic_load_n(&word, __ATOMIC_RELAXED);
}

std::string of_header(const ledger::PolicyPage& policy, const ledger::UsagePage& usage) {
  const std::uint64_t magic = copy_of(usage.header.magic), generation = copy_of(usage.generation);
  const std::uint32_t version = copy_of(usage.header.version), bytes = copy_of(usage.header.bytes);
  const std::uint32_t slots = copy_of(usage.slot_count), devices = copy_of(usage.device_count);
  const std::uint32_t seen = usage.slots_seen.load(std::memory_order_relaxed);
  if (magic != ledger::kUsageMagic) return "does not begin with a usage page's magic number";
  if (version != ledger::kVersion) return "says that its version is " + to_string(version);
  if (bytes != sizeof(ledger::UsagePage)) return "says that it has " + to_string(bytes) + " bytes";
  if (slots != ledger::kMaxSlots) return "says that it has " + to_string(slots) + " slots";
  if (devices != policy.device_count)
    return "says that it has " + to_string(devices) + " GPUs, and has " + to_string(policy.device_count);
  if (generation != policy.generation) return "has another generation number than the share";
  if (seen > ledger::kMaxSlots) return "says that " + to_string(seen) + " slots were used";
  if (is_written(usage.reserved)) return "has data in reserved fields";
  return {};
}

std::string of_account(const ledger::UsagePage& usage, std::uint32_t account, std::uint64_t card_bytes) {
  const std::uint64_t used = ledger::used_bytes(usage, account);
  // Twice, as what is still draining may already be its successor's too.
  if (card_bytes != 0 && account < ledger::kMaxDevices && used / 2 > card_bytes)
    return "counts " + to_string(used) + " bytes on a GPU of " + to_string(card_bytes);
  if (is_written(usage.memory[account].reserved)) return "has data in reserved fields";
  return {};
}

// No account exists to compare the slots' figures of contexts and code with.
std::string of_residuals(const ledger::UsagePage& usage, std::uint32_t slots, std::uint32_t device,
                         std::uint64_t card_bytes) {
  std::uint64_t sum = 0;
  for (std::uint32_t slot = 0; slot < slots && card_bytes != 0; ++slot) {
    const std::uint64_t residual = usage.slots[slot].devices[device].residual_bytes.load(std::memory_order_relaxed);
    if (residual > card_bytes)
      return "has a slot " + to_string(slot) + " with " + to_string(residual) +
             " bytes of contexts and code on a GPU of " + to_string(card_bytes);
    // A free slot keeps what its last process had.
    const std::uint64_t kind = usage.slots[slot].life.load(std::memory_order_relaxed) & 0xf;
    if (kind == static_cast<std::uint64_t>(ledger::SlotKind::live)) sum = saturating_add(sum, residual);
  }
  // Twice, for processes that have ended before their slots were given back.
  if (sum / 2 > card_bytes)
    return "counts " + to_string(sum) + " bytes of contexts and code on a GPU of " + to_string(card_bytes);
  return {};
}

std::string of_slot(const ledger::UsagePage& usage, std::uint32_t index, std::uint32_t devices) {
  const ledger::Slot& slot = usage.slots[index];
  const std::uint64_t kind = slot.life.load(std::memory_order_relaxed) & 0xf;
  if (kind > static_cast<std::uint64_t>(ledger::SlotKind::orphan))
    return "has a slot " + to_string(index) + " in an unknown state, " + to_string(kind);
  if (copy_of(slot.command[sizeof slot.command - 1]) != '\0')
    return "has a slot " + to_string(index) + " whose program name is not terminated";
  if (is_written(slot.reserved)) return "has data in reserved fields";
  for (std::uint32_t device = 0; device < devices; ++device) {
    const ledger::SlotDevice& books = slot.devices[device];
    // `settled` was written first and is read last, so it can be ahead, but never two behind.
    const std::uint64_t sequence = books.sequence.load(std::memory_order_acquire);
    const std::uint64_t settled = books.settled.load(std::memory_order_acquire);
    if (kind == static_cast<std::uint64_t>(ledger::SlotKind::live) && sequence > settled && sequence - settled > 1)
      return "has a slot " + to_string(index) + " with two operations under way at once";
  }
  return {};
}

}  // namespace

std::string PageCheck::look(const ledger::PolicyPage& policy, const ledger::UsagePage& usage, std::uint64_t card_bytes,
                            std::int64_t now_ns) {
  if (auto found = of_header(policy, usage); !found.empty()) return found;
  const std::uint32_t devices = std::min(policy.device_count, ledger::kMaxDevices);
  for (std::uint32_t device = 0; device < devices; ++device) {
    for (const std::uint32_t account : {device, ledger::host_account(device)}) {
      if (auto found = of_account(usage, account, card_bytes); !found.empty()) return found;
    }
  }
  const std::uint32_t seen = std::min(usage.slots_seen.load(std::memory_order_acquire), ledger::kMaxSlots);
  for (std::uint32_t device = 0; device < devices; ++device) {
    if (auto found = of_residuals(usage, seen, device, card_bytes); !found.empty()) return found;
  }
  for (std::uint32_t slot = 0; slot < seen; ++slot) {
    if (auto found = of_slot(usage, slot, devices); !found.empty()) return found;
  }
  for (std::uint32_t device = 0; device < devices; ++device) {
    const ledger::Balance balance = ledger::balance_of(usage, device);
    if (!balance.certain) continue;
    Imbalance& imbalance = imbalances_[device];
    if (balance.used_bytes == balance.slots_bytes) {
      imbalance = {};
      continue;
    }
    if (imbalance.looks++ == 0) imbalance.since_ns = now_ns;
    if (imbalance.looks >= kDisagreeingLooks && now_ns - imbalance.since_ns >= kDisagreesNs)
      return "counts " + to_string(balance.used_bytes) + " bytes in use, and its processes " +
             to_string(balance.slots_bytes);
  }
  return {};
}

}  // namespace headgate::observe
