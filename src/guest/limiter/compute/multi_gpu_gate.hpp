// A share on several GPUs without turns of an arbiter's: its ceilings, one a GPU, open and shut together. Each on its
// own lets one rank spin through its part for a rank that is shut out, and then the other way round: nothing of what is
// paid for is used.
#pragma once

#include <cstdint>

#include "guest/limiter/compute/stream_table.hpp"

namespace headgate::limiter {

inline bool on_several_gpus() { return metered.device_count > 1; }

// How long a launch on this stream waits because other GPUs of the share are not paid for: those on which this process
// has work, at most for the patience of one launch; all of them, at most 5 ms, where ranks have waited for each other
// within the last second. asked_ns: when it was first asked for.
std::int64_t ranks_wait_ns(const StreamMeter& stream, std::int64_t asked_ns);

// Whether work of the share on another GPU has been under way for longer than it should, while nothing of this process
// is here: it may spin for this launch. One that would have to wait passes then, paid later; the next only if it was
// not what was waited for.
bool rank_spins_for(const StreamMeter& stream);
void pass_for_rank(const ContextMeter& context, std::int64_t est_ns);

// est_ns are charged although the account is not open, and are there for the launch that follows.
void pass_in_debt(const ContextMeter& context, std::int64_t est_ns);

// How long a launch may sleep before it is worth another look at the above.
std::int64_t ranks_look_ns(const StreamMeter& stream, std::int64_t wait_ns);

}  // namespace headgate::limiter
