// Bounded wakes of waiters on a word of a page. A tenant may have tens of thousands of threads waiting there, and each
// wake costs the daemon's arbiter or loop some microseconds.
#pragma once

#include <atomic>
#include <cstdint>

#include "guest/bare/futex.hpp"
#include "guest/ledger/layout.hpp"

namespace headgate::ledger {

// For a word that limiters soon look at anyway: the others come a little later.
inline constexpr std::uint32_t kMaxWoken = 64;
// For a word on which one thread per process waits without a timeout.
inline constexpr std::uint32_t kOneOfEach = kMaxSlots;

// Wakes the longest waiters first. Restores errno.
inline void wake(const std::atomic<std::uint32_t>& word, std::uint32_t most = kMaxWoken) {
  bare::futex_wake(&word, most);
}

}  // namespace headgate::ledger
