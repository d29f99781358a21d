// Whether a memory limit holds under many at once, and what killed processes leave.
#pragma once

#include "setting.hpp"
#include "table.hpp"

namespace headgate::bench {

// 16 processes of 8 threads, then two racers for the same bytes, over the do-nothing driver; 1,000 kills of processes
// at work on one page of the ledger (ours only).
[[nodiscard]] Result<Section> memory_section(const Setting& setting);

// How long after a burst of allocations account and residual are what the simulator's card has given, with slabs and
// pools.
[[nodiscard]] Result<Section> agreement_section(const Setting& setting);

// Kernels that spin for each other, on two streams, threads, processes or GPUs, at every limit, over the simulator.
[[nodiscard]] Result<Section> pairs_section(const Setting& setting);

}  // namespace headgate::bench
