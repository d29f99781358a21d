// The residual: device memory of this process that no call reports (contexts, lazily loaded code, local memory, slabs).
// It is the driver's figure for this process minus what the ledger holds for it. The figure comes from the daemon,
// which knows this process in any container, else from NVML. 0 if NVML does not show us, as in a container with other
// pids.
#pragma once

#include <cstdint>

#include "guest/abi/nvml.hpp"
#include "guest/ledger/layout.hpp"

namespace headgate::limiter {

// NVML's list of processes on a device: 24 KiB, more than the whole stack of some threads.
inline constexpr unsigned kMaxListed = 1024;
using ProcessList = abi::nvmlProcessInfo_v2_t[kMaxListed];

// Returns whether NVML answers. Keeps a reference of ours: the program may shut its own down while we still query.
// Retries every second.
bool nvml_ready();
// Call when the program shut down NVML more often than it initialised it, and ours with it: takes a new reference.
void nvml_was_ended();
// Calls ask(), and once more after nvml_was_ended().
template <typename Ask>
abi::nvmlReturn_t asking_nvml(const Ask& ask) {
  const abi::nvmlReturn_t result = ask();
  if (result != abi::NVML_ERROR_UNINITIALIZED) return result;
  nvml_was_ended();
  return ask();
}

// Finds a device of the pages.
abi::nvmlReturn_t find_card(std::uint32_t device_index, abi::nvmlDevice_t& card);

// Lists the processes of one kind on a device. `count`: of the entries, after success.
enum class Listing { compute, graphics };
abi::nvmlReturn_t list_processes(abi::nvmlDevice_t device, Listing which, ProcessList& list, unsigned& count);

// Returns whether the driver's figure for this process is known. Without a daemon it is not in a container with other
// pids than the host's.
bool nvml_lists_us();

// Measures this process's residual on a device of the pages and stores it in our slot. Waits for the daemon or NVML:
// for rare calls only. Returns false if the driver's figure is unavailable; the last measurement stands.
bool refresh_residual(std::uint32_t device_index);

// The same if the last time was 50 ms ago, or a context was created since: for a program that asks often.
void refresh_residual_if_old(std::uint32_t device_index);

// Call when a context was created: what it took besides its known size is measured before the next allocation on that
// device, else soon by the memory thread.
void residual_is_due(std::uint32_t device_index);

// Measures if it is due; else one relaxed load.
void measure_residual_if_due(std::uint32_t device_index);

// Call when memory was taken or given back on that device: the residual may have changed (slabs under small
// allocations). The memory thread measures it within kResidualEvery, never the caller. One load in most cases.
void residual_moved(std::uint32_t device_index);

// Interval between two readings of a device; a reading that waits for quiet waits at most kResidualLatest.
inline constexpr std::int64_t kResidualEvery = 25'000'000;
inline constexpr std::int64_t kResidualLatest = 60'000'000;
inline constexpr std::int64_t kNothingMoved = INT64_MAX;

// For the memory thread: measures one device with changed memory, as soon as changes stop. Returns when to call again;
// kNothingMoved: not before memory changes.
std::int64_t measure_moved(std::int64_t now_ns);

// Returns the sum of all live processes' last measurements; includes dead ones for at most 50 ms more. now_ns:
// coarse_now_ns().
std::uint64_t share_residual(std::uint32_t device_index, std::int64_t now_ns);

// The same, summed now.
std::uint64_t share_residual_now(std::uint32_t device_index);

// Returns whether `bytes` more than `used` are within the limit; ledger::kNoMemoryLimit: always.
constexpr bool fits(std::uint64_t used, std::uint64_t bytes, std::uint64_t limit) {
  return limit == ledger::kNoMemoryLimit || (used <= limit && bytes <= limit - used);
}
// Returns what the share uses on a device, residuals included: as of share_residual(), or now.
std::uint64_t bytes_in_use(std::uint32_t device_index);
std::uint64_t bytes_in_use_now(std::uint32_t device_index);

// Call when the driver allocated what was reserved: raises the peaks, with and without contexts and code, to what is in
// use now.
void note_peaks(std::uint32_t device_index);

// Raises the residual by what a call is known to take. It may take that later (a stack at the next launch), so a
// measurement does not lower the residual below it. residual_falls() lowers it by what a call gave back, until the next
// measurement.
void residual_rises(std::uint32_t device_index, std::uint64_t bytes);
void residual_falls(std::uint32_t device_index, std::uint64_t bytes);
// Like residual_rises(), for what a measurement has already found.
void residual_rose(std::uint32_t device_index, std::uint64_t bytes);
// Call when up to that many bytes of code may be loaded at a launch, so that they count as explained.
void code_may_come(std::uint32_t device_index, std::uint64_t bytes);

// Returns this process's own part, as last measured.
std::uint64_t own_residual(std::uint32_t device_index);

void residual_reset_after_fork();

}  // namespace headgate::limiter
