// Shared by two racing processes and the test: a meeting point and each one's results.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

namespace headgate::e2e {

inline constexpr unsigned kRaceRounds = 200;

struct Race {
  std::atomic<std::uint32_t> arrived;
  std::atomic<std::uint32_t> result[2][kRaceRounds];

  // Waits until both have arrived at their n-th meeting.
  void meet(std::uint32_t n) {
    arrived.fetch_add(1);
    while (arrived.load() < (n + 1) * 2) sched_yield();
  }
};

}  // namespace headgate::e2e
