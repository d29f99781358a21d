// More threads waiting on a word of a page than one process should wake. For tests.
#pragma once

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <thread>
#include <vector>

namespace headgate::ledger {

using FutexWord = std::atomic<std::uint32_t>;

inline long wake_all(const FutexWord& word) {
  return ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Threads that wait on one word after another, each until it is woken there.
class Crowd {
 public:
  explicit Crowd(int threads) : threads_(threads) {
    for (int i = 0; i < threads; ++i)
      crowd_.emplace_back([this] { ::syscall(SYS_futex, &here_, FUTEX_WAIT, 0, nullptr, nullptr, 0); });
  }
  ~Crowd() {
    here_ = 1;
    wake_all(here_);
  }
  // Makes all of them wait on `word`.
  void wait_on(const FutexWord& word) {
    for (int moved = 0; moved < threads_;) {
      const long more = ::syscall(SYS_futex, &here_, FUTEX_REQUEUE, 0, INT_MAX, &word, 0);
      ASSERT_GE(more, 0);
      moved += static_cast<int>(more);
      std::this_thread::yield();
    }
  }

 private:
  int threads_;
  FutexWord here_{0};
  std::vector<std::jthread> crowd_;
};

// Returns how many of the threads still wait on `word` after `act` has woken some.
template <typename Do>
long still_waiting(int threads, const FutexWord& word, Do&& act) {
  Crowd crowd(threads);
  crowd.wait_on(word);
  act();
  return wake_all(word);
}

}  // namespace headgate::ledger
