// Whether this process's memory is on its GPUs, and whether it has called the driver lately: one word, looked at on the
// way of every call, so that a share whose owner wants idle programs off the card can send them off and a call brings
// them back.
#pragma once

#include <atomic>
#include <cstdint>

namespace headgate::limiter {

// used -> quiet: by the keeper, to see whether a call makes it used again. quiet -> leaving -> away: by the keeper.
// away -> returning -> used: by whoever calls.
enum Presence : std::uint32_t { kUsed = 0, kQuiet = 1, kLeaving = 2, kAway = 3, kReturning = 4 };

extern std::atomic<std::uint32_t> presence;  // a Presence; futex

// Makes it used; where the memory is away, brings it back first, or waits until another thread has. Restores errno.
void come_back();

inline bool present() { return presence.load(std::memory_order_acquire) == kUsed; }

// Whether its memory is on its GPUs, used or not.
inline bool on_its_gpus() { return presence.load(std::memory_order_acquire) <= kQuiet; }

// Before anything is asked of the driver in a call of the program's. One load.
inline void arrive() {
  if (!present()) [[unlikely]]
    come_back();
}

}  // namespace headgate::limiter
