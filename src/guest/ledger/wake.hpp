// Waking those who wait on a word of a page. Any of a tenant's threads can do that, tens of thousands of them, and each
// takes whoever wakes them some microseconds: the daemon's arbiter, or its loop. So there is a bound.
#pragma once

#include <atomic>
#include <cstdint>

#include "guest/ledger/layout.hpp"

namespace headgate::ledger {

// Of a word that limiters look at by themselves soon, woken or not: the others come a little later.
inline constexpr std::uint32_t kMaxWoken = 64;
// Of one that a single thread of each process waits on, for as long as it takes.
inline constexpr std::uint32_t kOneOfEach = kMaxSlots;

// Those who have waited longest first. Restores errno.
void wake(const std::atomic<std::uint32_t>& word, std::uint32_t most = kMaxWoken);

}  // namespace headgate::ledger
