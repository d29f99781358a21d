#include "guest/ledger/oom_wait.hpp"

#include <algorithm>

#include "guest/bare/clock.hpp"
#include "guest/bare/futex.hpp"
#include "guest/ledger/packing.hpp"
#include "guest/ledger/slot.hpp"
#include "guest/ledger/wake.hpp"

namespace headgate::ledger {

std::uint32_t expect_release(UsagePage& page) { return page.releases.fetch_or(1, std::memory_order_seq_cst) | 1; }

void wait_for_release(const UsagePage& page, std::uint32_t expected) {
  bare::futex_wait(&page.releases, expected, kLookAgainNs);
}

// Call after the account's step, a full barrier: either we see the waiter's mark, or it sees our bytes.
void tell_released(UsagePage& page) {
  std::uint32_t seen = page.releases.load(std::memory_order_seq_cst);
  if ((seen & 1) == 0) [[likely]]
    return;
  // If this fails, the winner woke the waiters, or a newer waiter has looked since.
  if (page.releases.compare_exchange_strong(seen, seen + 1)) wake(page.releases);
}

void note_want(UsagePage& page, std::uint32_t device, SlotRef slot, std::uint64_t bytes, bool of_card) {
  if (device >= kMaxAccounts) return;
  MemoryAccount& account = page.memory[device];
  account.wanted_bytes.store(bytes, std::memory_order_relaxed);
  account.wanted_pid.store(pid_of(page, slot), std::memory_order_relaxed);
  account.wanted_of_card.store(of_card ? 1 : 0, std::memory_order_relaxed);
  account.wanted_ns.store(bare::host_ns(), std::memory_order_relaxed);
  account.wants.fetch_add(1, std::memory_order_release);
}

bool wanted_lately(const UsagePage& page, std::uint32_t device, std::int64_t now_ns) {
  if (device >= kMaxAccounts) return false;
  const std::int64_t wanted_ns = page.memory[device].wanted_ns.load(std::memory_order_relaxed);
  return wanted_ns > 0 && wanted_ns <= now_ns && now_ns - wanted_ns < kWantLastsNs;
}

Want last_want(const UsagePage& page, std::uint32_t device) {
  if (device >= kMaxAccounts) return {};
  const MemoryAccount& account = page.memory[device];
  return {.epoch = account.wants.load(std::memory_order_acquire),
          .pid = account.wanted_pid.load(std::memory_order_relaxed),
          .bytes = account.wanted_bytes.load(std::memory_order_relaxed),
          .of_card = account.wanted_of_card.load(std::memory_order_relaxed) == 1};
}

void set_waiting(PolicyPage& policy, bool ask_first, std::uint32_t oom_wait_ms) {
  policy.oom_wait_ms.store(std::min(oom_wait_ms, kLongestOomWaitMs), std::memory_order_relaxed);
  policy.ask_first.store(ask_first ? 1 : 0, std::memory_order_release);
}

void deny_waiters(PolicyPage& policy, UsagePage& usage) {
  policy.oom_denials.fetch_add(1, std::memory_order_release);
  tell_released(usage);
}

}  // namespace headgate::ledger
