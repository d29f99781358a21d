// Whether this process's memory is on its GPUs, and whether it called the driver lately. It is one word, checked on
// every call. For a share with --freeze-after, memory of an idle program moves to the host; its next call brings it
// back.
#pragma once

#include <atomic>
#include <cstdint>

namespace headgate::limiter {

// The memory thread makes used -> quiet, to see whether a call makes it used again, and quiet -> leaving -> away. A
// calling thread makes away -> returning -> used.
enum Presence : std::uint32_t { kUsed = 0, kQuiet = 1, kLeaving = 2, kAway = 3, kReturning = 4 };

extern std::atomic<std::uint32_t> presence;  // a Presence; futex

// Sets presence to kUsed. If the memory is away, brings it back, or waits until another thread has. Restores errno.
void come_back();

inline bool present() { return presence.load(std::memory_order_acquire) == kUsed; }

// Returns whether this process's memory is on its GPUs, used or not.
inline bool on_its_gpus() { return presence.load(std::memory_order_acquire) <= kQuiet; }

// Call in each call of the program's, before the driver is used. One load.
inline void arrive() {
  if (!present()) [[unlikely]]
    come_back();
}

}  // namespace headgate::limiter
