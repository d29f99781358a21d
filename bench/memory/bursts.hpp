// Processes that take and drop memory in short bursts, in turn, with rest in between: what an account must keep up
// with.
#pragma once

#include "base/result.hpp"
#include "load/done.hpp"

namespace headgate::bench {

// `processes` of them make `bursts` bursts between them, one each `period_ms`. One line of JSON on stdout: when each
// burst began and ended (CLOCK_MONOTONIC nanoseconds), and how many answers were neither success nor a refusal.
[[nodiscard]] Result<load::Done> run_bursts(int processes, int bursts, int period_ms);

}  // namespace headgate::bench
