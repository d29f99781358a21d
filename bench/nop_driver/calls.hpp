// State shared by the do-nothing driver's files: memory size, whether it has a context, call counts.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace headgate::bench::nop {

inline constexpr std::size_t kMemoryBytes = 64ull << 30;
inline std::atomic<bool> g_has_context{false};  // true from the first context on

// All calls except kernel launches, from any thread.
inline std::atomic<std::uint64_t> g_other_calls{0};
// Not atomic add: a locked one would cost as much as what is measured. Exact if one thread launches.
inline std::atomic<std::uint64_t> g_launches{0};

inline void count_call() { g_other_calls.fetch_add(1, std::memory_order_relaxed); }
inline void count_launch() {
  g_launches.store(g_launches.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace headgate::bench::nop
