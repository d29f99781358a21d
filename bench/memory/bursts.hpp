// Processes that allocate and free memory in short bursts, in turn, with pauses in between. Tests how fast an account
// follows.
#pragma once

#include "base/result.hpp"

namespace headgate::bench {

// `processes` processes make `bursts` bursts in total, one each `period_ms`. Prints one line of JSON: when each burst
// began and ended (CLOCK_MONOTONIC nanoseconds), and how many results were neither success nor a refusal.
[[nodiscard]] Result<void> run_bursts(int processes, int bursts, int period_ms);

}  // namespace headgate::bench
