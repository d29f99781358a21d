// The residual: device memory of this process that no call reveals (contexts, code loaded lazily, local memory, slabs).
// Measured as NVML's figure for this process minus what the ledger holds for it. The figure comes from the daemon,
// which knows this process in any container, else from NVML; 0 where NVML does not show us, as in a container whose
// process numbers are not the host's.
#pragma once

#include <cstdint>

#include "guest/abi/nvml.hpp"

namespace headgate::limiter {

// NVML's list of processes on a device: 24 KiB, more than the whole stack that some threads have.
inline constexpr unsigned kMaxListed = 1024;
using ProcessList = abi::nvmlProcessInfo_v2_t[kMaxListed];

// Whether NVML answers, by a reference of our own, kept: the program may shut its own down while we still look. Tried
// again each second.
bool nvml_ready();
// The program has shut down NVML more often than it initialised it, ours with it: takes a reference again.
void nvml_was_ended();
// Calls ask(), and once more after nvml_was_ended().
template <typename Ask>
abi::nvmlReturn_t asking_nvml(const Ask& ask) {
  const abi::nvmlReturn_t result = ask();
  if (result != abi::NVML_ERROR_UNINITIALIZED) return result;
  nvml_was_ended();
  return ask();
}

// Whether the driver's figure for this process is known. Without a daemon not in a container whose process numbers are
// not the host's.
bool nvml_lists_us();

// Measures this process's residual on a device of the pages and stores it in our slot. Waits for the daemon or calls
// NVML: for rare calls only. False: the driver does not say just now, and what was measured last stands.
bool refresh_residual(std::uint32_t device_index);

// The same where the last time is 50 ms ago, or a context has come since: for a program that asks again and again.
void refresh_residual_if_old(std::uint32_t device_index);

// A context came: its memory is measured before the next allocation on that device, else by the keeper a little later.
// Not at once: asking NVML for the first time takes milliseconds, which no program without allocations need wait for.
void residual_is_due(std::uint32_t device_index);

// Where it is due; else one relaxed load.
void measure_residual_if_due(std::uint32_t device_index);

// Memory was taken or given back on that device: what no call reveals may have changed with it (slabs under small
// allocations), and is measured within kResidualEvery by the keeper's thread, never by the caller. One load in most
// cases.
void residual_moved(std::uint32_t device_index);

// Two readings of a device are that far apart, and one that waits for things to be still waits kResidualLatest at most.
inline constexpr std::int64_t kResidualEvery = 25'000'000;
inline constexpr std::int64_t kResidualLatest = 60'000'000;
inline constexpr std::int64_t kNothingMoved = INT64_MAX;

// For the keeper: measures one device of those on which something has moved, as soon as nothing moves any more. When to
// come back; kNothingMoved: not before something moves.
std::int64_t measure_moved(std::int64_t now_ns);

// Of all live processes of the share as they measured it last; of the dead for 50 ms more at most. now_ns:
// coarse_now_ns().
std::uint64_t share_residual(std::uint32_t device_index, std::int64_t now_ns);

// The same, summed now.
std::uint64_t share_residual_now(std::uint32_t device_index);

// The driver gave what was reserved: what is in use now, with and without contexts and code, may be the most that ever
// was.
void note_peaks(std::uint32_t device_index);

// The process's residual rises by what a call was told that it takes; it may take that later (a stack at the next
// launch), so a measurement does not lower it below. It falls by what a call gave back, until the next measurement
// corrects it.
void residual_rises(std::uint32_t device_index, std::uint64_t bytes);
void residual_falls(std::uint32_t device_index, std::uint64_t bytes);
// As residual_rises(), of what a measurement has found already.
void residual_rose(std::uint32_t device_index, std::uint64_t bytes);
// Code of so many bytes at most may be loaded at a launch, which is no memory that nothing explains.
void code_may_come(std::uint32_t device_index, std::uint64_t bytes);

// This process's own part, as last measured.
std::uint64_t own_residual(std::uint32_t device_index);

void residual_reset_after_fork();

}  // namespace headgate::limiter
