// One fact about a card and its driver that headgate's design rests on: how it is measured, and what came out.
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.hpp"
#include "load/driver.hpp"
#include "load/kernels.hpp"

namespace headgate::gpu_facts {

using namespace load;
using Json = nlohmann::ordered_json;

// A driver with its primary context current on the calling thread, the busy kernel and a stream.
struct Card {
  Driver driver;
  CUcontext context = nullptr;
  BusyKernel kernel;
  CUstream stream = nullptr;
};
[[nodiscard]] Result<Card> open_card();

[[nodiscard]] std::int64_t now_ns();
[[nodiscard]] double median(std::vector<double> values);

// Figures are in the unit that their key names. An Error says why there is no figure; it becomes "unmeasured".
using Measure = Result<Json> (*)(const Card& card);

// events.cpp
[[nodiscard]] Result<Json> event_costs(const Card& card);  // record, query, elapsed time: idle and behind a full queue
[[nodiscard]] Result<Json> clock_drift(const Card& card);  // GPU events against CLOCK_MONOTONIC
[[nodiscard]] Result<Json> queue_depth(const Card& card);  // launches that fit before one blocks
[[nodiscard]] Result<Json> time_slice(const Card& card);   // gaps in one context's work while another one has work too
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
    const Card& card);  // names whose addresses agree or differ between the two look-ups
// process.cpp: these start processes of their own, and must run before this process touches the driver.
[[nodiscard]] Result<Json> context_bytes();  // what one context takes, by NVML
[[nodiscard]] Result<Json>
memory_after_kill();  // how long NVML shows a killed process's memory, with and without a forked child
[[nodiscard]] Result<Json> time_slice_between_processes();

}  // namespace headgate::gpu_facts
