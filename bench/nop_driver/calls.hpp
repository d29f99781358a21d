// What the do-nothing driver counts: how often each of its functions was called.
#pragma once

#include <atomic>
#include <cstdint>

namespace headgate::bench::nop {

// Everything but kernel launches, from any thread.
inline std::atomic<std::uint64_t> g_other_calls{0};
// A plain add: a locked one would cost as much as what is measured. Exact for a program that launches from one thread.
inline std::atomic<std::uint64_t> g_launches{0};

inline void count_call() { g_other_calls.fetch_add(1, std::memory_order_relaxed); }
inline void count_launch() {
  g_launches.store(g_launches.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace headgate::bench::nop
