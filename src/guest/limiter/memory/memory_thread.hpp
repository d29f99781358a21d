// The process's thread for slow NVML and driver calls that no caller waits for: it measures the residual when memory
// has changed, and trims pools when the share's owner asks. Separate from the settler, which must not wait.
#pragma once

namespace headgate::limiter {

// Tells the thread to look; starts it if needed. At most a futex wake; restores errno.
void wake_memory_thread();

void memory_thread_reset_after_fork();

}  // namespace headgate::limiter
