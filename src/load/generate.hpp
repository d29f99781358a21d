// Runs a load: forks its processes before the driver is touched, starts all threads together, gathers what they saw.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "load/histogram.hpp"
#include "load/options.hpp"

namespace headgate::load {

// What one process met. Plain data: it lies in memory shared with the parent.
struct ProcessReport {
  std::uint64_t launches = 0;        // kernels, also those of graphs
  double kernel_us = 0;              // the sum of their lengths
  Histogram launch_ns;               // how long launch calls took, the gate's waiting included
  Histogram request_ns;              // --sync=batch: from a batch's first launch until all of it was done
  std::uint64_t memory_bytes = 0;    // taken
  std::uint32_t attempt_result = 0;  // CUresult of --attempt
  std::uint64_t attempt_ns = 0;
  std::uint64_t free_bytes = 0, total_bytes = 0;  // what cuMemGetInfo said after the allocations
  std::uint32_t edge_over_result = 0,
                edge_exact_result = 0;  // CUresult of --edge: one byte too much, and all that is free
  std::uint64_t grown_bytes = 0;        // --grow: given before the refusal
  bool grow_refused = false;
  std::uint32_t pid = 0;
  std::int64_t processor_wait_ns = 0;  // the longest that one launching thread was ready and had no processor
  char device_name[96] = {};
  char error[256] = {};  // empty: all went well
  int error_code = 0;    // ErrorCode of it
};

struct Report {
  std::int64_t started_ns = 0;  // ledger::host_ns(): the first launch was allowed
  std::int64_t ended_ns = 0;    // no launch began after this
  std::int64_t drained_ns = 0;  // the last kernel was done
  std::vector<ProcessReport> processes;
  std::vector<std::int64_t>
      idle_ns;  // per bucket of 10 ms on the clock's grid, from the one that holds started_ns on; see asking.hpp
};

// Blocks until the load is done; SIGINT and SIGTERM end it early and still give a report. Errors: no driver, a call
// failed.
[[nodiscard]] Result<Report> generate(const Options& options);

// One line of JSON, schema headgate.load/v1.
[[nodiscard]] std::string to_json(const Options& options, const Report& report);

}  // namespace headgate::load
