// A fact about a card and its driver on which headgate's design depends: how it is measured, and the result.
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.hpp"
#include "load/driver.hpp"
#include "load/kernels.hpp"

namespace headgate::gpu_facts {

using namespace load;
using Json = nlohmann::ordered_json;

// A driver with its primary context current in the calling thread, the busy kernel and a stream.
struct Card {
  Driver driver;
  CUcontext context = nullptr;
  BusyKernel kernel;
  CUstream stream = nullptr;
};
[[nodiscard]] Result<Card> open_card();

[[nodiscard]] std::int64_t now_ns();
[[nodiscard]] double median(std::vector<double> values);

// Keys name their figure's unit. An Error says why there is no figure; it becomes "unmeasured".
using Measure = Result<Json> (*)(const Card& card);

// events.cpp
[[nodiscard]] Result<Json> event_costs(const Card& card);  // record, query, elapsed time: idle and behind a full queue
[[nodiscard]] Result<Json> clock_drift(const Card& card);  // GPU events against CLOCK_MONOTONIC
[[nodiscard]] Result<Json> queue_depth(const Card& card);  // launches that fit before one blocks
[[nodiscard]] Result<Json> time_slice(const Card& card);   // gaps in one context's work while another works
// order.cpp
[[nodiscard]] Result<Json> programmatic_launch(
    const Card& card);  // does a record between two such kernels end their overlap
[[nodiscard]] Result<Json> query_beside_capture(
    const Card& card);  // relaxed and default queries beside a global capture
// capture.cpp
[[nodiscard]] Result<Json> calls_beside_capture(const Card& card);  // which calls break a capture, by thread and mode
// memory.cpp
[[nodiscard]] Result<Json> slab_size(const Card& card);
[[nodiscard]] Result<Json> pool_growth(const Card& card);
[[nodiscard]] Result<Json> symbol_aliases(
    const Card& card);  // names with equal or different addresses in the two lookups
// process.cpp: these fork, so they must run before this process uses the driver.
[[nodiscard]] Result<Json> context_bytes();  // size of one context, by NVML
[[nodiscard]] Result<Json>
memory_after_kill();  // how long NVML shows a killed process's memory, with and without a forked child
[[nodiscard]] Result<Json> time_slice_between_processes();

}  // namespace headgate::gpu_facts
