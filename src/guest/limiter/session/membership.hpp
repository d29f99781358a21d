// The parts of a membership that memory/ and view/ use and compute/ does not.
#pragma once

#include <cstdint>

#include "guest/abi/cuda.hpp"
#include "guest/abi/nvml.hpp"
#include "guest/ledger/slot.hpp"
#include "guest/limiter/session/session.hpp"

namespace headgate::limiter {

// Returns whether this process is a member with a slot. One acquire load.
bool seated();

// The caller's position before a request is charged.
enum class Standing : std::uint32_t {
  free,     // no grant applies, or the driver would return an error: just forward
  held,     // device_index is valid
  outside,  // the current GPU is not in the share: allocations there are refused
  unknown,  // the driver does not report the device: the share's fail policy decides
};
struct Place {
  Standing standing = Standing::free;
  std::uint32_t device_index = 0;  // index in the pages
  abi::CUdevice device = 0;
};

// For the calling thread's current context. Opens the session if a context exists without a cuInit that we saw.
Place current_place();
// For a CUDA ordinal.
Place place_of(abi::CUdevice device);

// Call after nvmlInit succeeded: joins the share for views, without a slot. NVML_ERROR_NO_PERMISSION if refused.
abi::nvmlReturn_t open_session_for_views();

// Returns whether NVML should show the share. A forked child joins for views here, because its parent initialised NVML
// for both.
bool sees_share();

// Call before the driver's cuInit: joins the share that is named by directory in the environment, or mounted, as for
// views. Its GPUs decide what the driver should show. Does nothing for other shares.
void open_session_by_directory();

// Returns the page index of an NVML device; kNoDevice if it is not in the share or there is no share.
std::uint32_t nvml_device_index(abi::nvmlDevice_t device);

ledger::SlotRef own_slot();

// Both for a device of the share, by index in the pages. granted_bytes: the limit, or ledger::kNoMemoryLimit.
inline ledger::SlotDevice& own_books(std::uint32_t device) {
  return session.usage->slots[session.slot].devices[device];
}
inline std::uint64_t granted_bytes(std::uint32_t device) {
  return session.policy->devices[device].memory_limit_bytes.load(std::memory_order_relaxed);
}

// Returns the inode of this process's pid namespace: pids in the pages only mean something here if they are of it.
std::uint32_t own_namespace();

// Returns CLOCK_MONOTONIC, accurate to some milliseconds; takes a few nanoseconds, no system call.
std::int64_t coarse_now_ns();

// Returns true at most once a minute for each event (below 64), to limit repeated log lines.
bool may_say(std::uint32_t event);

}  // namespace headgate::limiter
