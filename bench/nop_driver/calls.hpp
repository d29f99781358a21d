// What the do-nothing driver's files share: its size, whether it has a context, how often its functions were called.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace headgate::bench::nop {

inline constexpr std::size_t kMemoryBytes = 64ull << 30;
inline std::atomic<bool> g_has_context{false};  // from the first on; never false again

// Everything but kernel launches, from any thread.
inline std::atomic<std::uint64_t> g_other_calls{0};
// A plain add: a locked one would cost as much as what is measured. Exact for a program that launches from one thread.
inline std::atomic<std::uint64_t> g_launches{0};

inline void count_call() { g_other_calls.fetch_add(1, std::memory_order_relaxed); }
inline void count_launch() {
  g_launches.store(g_launches.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace headgate::bench::nop
