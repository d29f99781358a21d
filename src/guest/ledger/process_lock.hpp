// Orders the threads of one process on one device's account. In process memory, never in a page: a stopped or killed
// process blocks only itself.
#pragma once

#include <atomic>
#include <cstdint>

#include "guest/ledger/layout.hpp"

namespace headgate::ledger {

// Process-wide, by account: free, held, or held with sleepers.
extern std::atomic<std::uint32_t> process_locks[kMaxAccounts];

void process_lock_slow(std::atomic<std::uint32_t>& word);
void process_unlock_slow(std::atomic<std::uint32_t>& word);

inline void lock_process(std::uint32_t device) {
  std::uint32_t free = 0;
  if (!process_locks[device].compare_exchange_strong(free, 1, std::memory_order_acquire))
    process_lock_slow(process_locks[device]);
}
inline void unlock_process(std::uint32_t device) {
  if (process_locks[device].exchange(0, std::memory_order_release) == 2) process_unlock_slow(process_locks[device]);
}

class ProcessLock {
 public:
  explicit ProcessLock(std::uint32_t device) : device_(device) { lock_process(device_); }
  ~ProcessLock() { unlock_process(device_); }
  ProcessLock(const ProcessLock&) = delete;
  ProcessLock& operator=(const ProcessLock&) = delete;

 private:
  std::uint32_t device_;
};

}  // namespace headgate::ledger
