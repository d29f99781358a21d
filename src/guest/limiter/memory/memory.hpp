// What other rooms of the limiter tell the memory room.
#pragma once

namespace headgate::limiter {

// In a forked child: nothing that the parent allocated is ours.
void memory_reset_after_fork();

}  // namespace headgate::limiter
