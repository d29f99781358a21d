// Whether the GPU may still be working for this process: asked by memory/, answered by compute/.
#pragma once

#include <atomic>

namespace headgate::limiter {

// Set by compute/ when it starts metering; null until then. Stays set in a forked child.
inline constinit std::atomic<bool (*)()> unfinished_work{nullptr};

// Returns true if metered work is not known to have ended. False before any work was metered. Any thread.
inline bool is_work_unfinished() {
  const auto ask = unfinished_work.load(std::memory_order_acquire);
  return ask != nullptr && ask();
}

}  // namespace headgate::limiter
