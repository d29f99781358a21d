// Whether the GPU may still work on what this process sent: asked by memory, answered by compute.
#pragma once

#include <atomic>

namespace headgate::limiter {

// Set by compute when it begins to meter; null until then. Stays set in a forked child.
inline constinit std::atomic<bool (*)()> unfinished_work{nullptr};

// True if work that was metered is not known to have ended. Before anything was metered there is none. Any thread.
inline bool is_work_unfinished() {
  const auto ask = unfinished_work.load(std::memory_order_acquire);
  return ask != nullptr && ask();
}

}  // namespace headgate::limiter
