// Programs that leave their GPUs alone for as long as the share's owner allows give the card their memory back: the
// driver moves it to the host (cuCheckpointProcess*), and the next call into the driver moves it in again before it
// goes on.
#pragma once

#include <cstdint>

namespace headgate::limiter {

inline constexpr std::int64_t kNeverFreezes = INT64_MAX;

// For the keeper, again and again: looks whether the program was idle for the share's freeze_after, and then sends its
// memory off. Returns when to come again; kNeverFreezes: not before the policy changes. Calls the driver.
std::int64_t tend_presence(std::int64_t now_ns);

void presence_reset_after_fork();

}  // namespace headgate::limiter
