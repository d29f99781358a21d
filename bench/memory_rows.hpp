// Tests if a memory limit holds under contention, and what killed processes leave.
#pragma once

#include "setting.hpp"
#include "table.hpp"

namespace headgate::bench {

// 16 processes with 8 threads each, then two that race for the same bytes, on the do-nothing driver. Also 1,000 kills
// of processes at work on one page of the ledger (ours only).
[[nodiscard]] Result<Section> memory_section(const Setting& setting);

// Measures how long after a burst of allocations account plus residual match the simulated card, with slabs and pools.
[[nodiscard]] Result<Section> agreement_section(const Setting& setting);

// Kernels that spin for each other on two streams, threads, processes or GPUs, at each limit, on the simulator.
[[nodiscard]] Result<Section> pairs_section(const Setting& setting);

}  // namespace headgate::bench
