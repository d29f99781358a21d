// The process's thread for slow NVML and driver calls that no caller waits for: it measures the residual when memory
// has changed, and trims pools when the share's owner asks. Separate from the settler, which must not wait.
#pragma once

#include <cstdint>

namespace headgate::limiter {

// Tells the thread to look; starts it if needed. At most a futex wake; restores errno.
void wake_memory_thread();

void memory_thread_reset_after_fork();

// Programs that do not use their GPUs for the time set by the share's owner free card memory: the driver moves it to
// the host (cuCheckpointProcess*), and the next driver call moves it back before it continues.
inline constexpr std::int64_t kNeverFreezes = INT64_MAX;

// For the memory thread, repeatedly: if the program was idle for the time that the share's owner set, moves its memory to
// the host. Returns when to call again; kNeverFreezes: not before the policy changes. Calls the driver.
std::int64_t tend_presence(std::int64_t now_ns);

void presence_reset_after_fork();

}  // namespace headgate::limiter
