// For a share on several GPUs without an arbiter's turns: its ceilings, one per GPU, open and shut together.
// Separately, one rank could use up its part spinning for a rank that is shut out, then the other way round, so that
// paid time is wasted.
#pragma once

#include <cstdint>

#include "guest/limiter/compute/stream_table.hpp"

namespace headgate::limiter {

inline bool on_several_gpus() { return metered.device_count > 1; }

// Returns how long a launch on this stream waits because other GPUs of the share are not paid for: at most 5 ms, and 0
// unless ranks have waited for each other within the last second. asked_ns: when the launch was requested.
std::int64_t ranks_wait_ns(const StreamMeter& stream, std::int64_t asked_ns);

// Returns whether the share's work on another GPU is overdue while this process has none here: it may be spinning for
// this launch. Then a launch that would have to wait passes in debt; the next passes only if that was not the one it
// waited for.
bool rank_spins_for(const StreamMeter& stream);

// Charges est_ns although the account is not open, as credit for the launch that follows.
void pass_in_debt(const ContextMeter& context, std::int64_t est_ns);

// Returns how long a launch may sleep before it should check the above again.
std::int64_t ranks_look_ns(const StreamMeter& stream, std::int64_t wait_ns);

}  // namespace headgate::limiter
