// The one thread of a process that does what takes NVML or the driver its time and nobody waits for: it measures the
// residual where memory has moved, and trims pools at the word of the share's owner. Apart from the settler, which must
// not wait.
#pragma once

namespace headgate::limiter {

// There is something to look at. Makes the thread where there is none. A futex wake at most; restores errno.
void wake_memory_thread();

void memory_thread_reset_after_fork();

}  // namespace headgate::limiter
