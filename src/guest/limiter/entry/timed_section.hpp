// A program that times kernels records an event, launches, and records another. An autotuner chooses by the difference
// and keeps the choice. So a share that owes time waits before the first record, and launches until the second pass as
// debt. Over time the ceiling holds: each section begins without debt. With an arbiter's turns, the section begins in
// the share's turn and may exceed it by at most kSectionNs, which the share's next turns pay.
#pragma once

#include <cstdint>

#include "guest/abi/cuda.hpp"

namespace headgate::limiter {

// Estimated GPU time that passes in one section, at least one command; further commands wait at the gate as usual.
inline constexpr std::int64_t kSectionNs = 5'000'000;
// The longest wait before a record. It is kPatienceNs if work in front has been unfinished for that time.
inline constexpr std::int64_t kSectionWaitNs = 1'000'000'000;

// Call before the program records that event on that stream, in a metered process, on the calling thread. A record
// after a launch ends a section, any other begins one. Does nothing for an event without timing, or on a stream without
// launches.
void before_record(abi::CUevent event, abi::CUstream stream);
void timed_sections_reset_after_fork();

}  // namespace headgate::limiter
