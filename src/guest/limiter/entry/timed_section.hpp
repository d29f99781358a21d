// A program that times its kernels records an event, launches, and records another: an autotuner picks by what lies
// between the two, and keeps the choice. So a share that owes time waits before the first record, and what is launched
// until the second passes as debt. In long runs the ceiling holds: each section begins with nothing owed. Where an
// arbiter gives the GPU in turns, it begins in a turn of the share's, and goes on over the end of that turn by
// kSectionNs at most, which the share pays with its next ones.
#pragma once

#include <cstdint>

#include "guest/abi/cuda.hpp"

namespace headgate::limiter {

// What passes so in one section, one command at least; the rest waits at the gate as ever.
inline constexpr std::int64_t kSectionNs = 5'000'000;
// The longest wait before a record. Behind work that has been unfinished for kPatienceNs, that.
inline constexpr std::int64_t kSectionWaitNs = 1'000'000'000;

// Before the program's record of that event on that stream, by the calling thread, in a process that is metered. A
// record after a launch ends a section, any other begins one. Does nothing for an event that measures no time, and on a
// stream without launches.
void before_record(abi::CUevent event, abi::CUstream stream);
void timed_sections_reset_after_fork();

}  // namespace headgate::limiter
