#include "guest/ledger/process_lock.hpp"

#include "guest/bare/futex.hpp"
#include "guest/ledger/account.hpp"

namespace headgate::ledger {

constinit std::atomic<std::uint32_t> process_locks[kMaxAccounts] = {};

void process_lock_slow(std::atomic<std::uint32_t>& word) {
  // An operation under the lock takes about 20 ns: spinning for a microsecond is cheaper than a sleep.
  for (int i = 0; i < 100; ++i) {
    std::uint32_t free = 0;
    if (word.compare_exchange_weak(free, 1, std::memory_order_acquire)) return;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
  }
  while (word.exchange(2, std::memory_order_acquire) != 0) bare::futex_wait(&word, 2, 1'000'000'000);
}

void process_unlock_slow(std::atomic<std::uint32_t>& word) { bare::futex_wake_all(&word); }

void reset_locks_after_fork() {
  for (auto& word : process_locks) word.store(0, std::memory_order_relaxed);
}

}  // namespace headgate::ledger
