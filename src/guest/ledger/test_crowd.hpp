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

// Makes all that wait on `from` wait on `to`. Returns how many.
inline long requeue(const FutexWord& from, const FutexWord& to) {
  return ::syscall(SYS_futex, &from, FUTEX_REQUEUE, 0, INT_MAX, &to, 0);
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
  // Makes all of them wait on `word`, once all wait here. Until then one may still be woken late for a lock that it
  // already has, and the kernel would make it wait here again.
  void wait_on(const FutexWord& word) {
    while (requeue(here_, here_) < threads_) std::this_thread::yield();
    ASSERT_EQ(requeue(here_, word), threads_);
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
