// Runs a load: forks its processes before using the driver, starts all threads together and collects their results.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "load/histogram.hpp"
#include "load/options.hpp"

namespace headgate::load {

// One process's results. Plain data, because it is in memory shared with the parent.
struct ProcessReport {
  std::uint64_t launches = 0;        // kernels, including those in graphs
  double kernel_us = 0;              // sum of their durations
  Histogram launch_ns;               // durations of launch calls, including waits at the gate
  Histogram request_ns;              // --sync=batch: from a batch's first launch until it is complete
  std::uint64_t memory_bytes = 0;    // allocated
  std::uint32_t attempt_result = 0;  // CUresult of --attempt
  std::uint64_t attempt_ns = 0;
  std::uint64_t free_bytes = 0, total_bytes = 0;  // from cuMemGetInfo after the allocations
  std::uint32_t edge_over_result = 0,
                edge_exact_result = 0;  // CUresult of --edge: one byte too much, and exactly what is free
  std::uint64_t grown_bytes = 0;        // --grow: allocated before the refusal
  bool grow_refused = false;
  std::uint32_t pid = 0;
  std::int64_t processor_wait_ns = 0;  // maximum over launching threads of the time ready without a CPU
  char device_name[96] = {};
  char error[256] = {};  // empty on success
  int error_code = 0;    // its ErrorCode
};

// Adds the counts of `from`, and takes the larger of times.
void merge(ProcessReport& into, const ProcessReport& from);

struct Report {
  std::int64_t started_ns = 0;  // ledger::host_ns(): when launches were allowed
  std::int64_t ended_ns = 0;    // no launch started after this
  std::int64_t drained_ns = 0;  // end of the last kernel
  std::vector<ProcessReport> processes;
  std::vector<std::int64_t>
      idle_ns;  // per 10 ms bucket of the clock, from the one that contains started_ns; see asking.hpp
};

// Blocks until the load is done; SIGINT and SIGTERM end it early, still with a report. Errors: no driver, or a failed
// call.
[[nodiscard]] Result<Report> generate(const Options& options);

// Formats one line of JSON, schema headgate.load/v1.
[[nodiscard]] std::string to_json(const Options& options, const Report& report);

}  // namespace headgate::load
