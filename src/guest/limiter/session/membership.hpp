// The parts of a membership that memory and views use and the compute room does not.
#pragma once

#include <cstdint>

#include "guest/abi/cuda.hpp"
#include "guest/abi/nvml.hpp"
#include "guest/ledger/slot.hpp"
#include "guest/limiter/session/session.hpp"

namespace headgate::limiter {

// Whether this process is a member with a slot of its own. One acquire load.
bool seated();

// Where the caller stands before a request is charged.
enum class Standing : std::uint32_t {
  free,     // no grant concerns this process, or the driver would answer an error of its own: just forward
  held,     // device_index is valid
  outside,  // the current GPU is not in the share: nothing may be taken there
  unknown,  // the driver does not say where we are: the share's fail policy decides
};
struct Place {
  Standing standing = Standing::free;
  std::uint32_t device_index = 0;  // of the pages
  abi::CUdevice device = 0;
};

// Of the calling thread's current context; opens the session where a context exists without our having seen cuInit.
Place current_place();
// Of a CUDA ordinal.
Place place_of(abi::CUdevice device);

// After nvmlInit succeeded: joins the share for the views, without a slot. NVML_ERROR_NO_PERMISSION when refused.
abi::nvmlReturn_t open_session_for_views();

// Whether NVML is to show the share. A forked child joins for its views here, because its parent has initialised NVML
// for both.
bool sees_share();

// Before the driver's cuInit: joins the share whose directory the environment names, or which is mounted, as for the
// views; which GPUs it has decides what the driver is to show. Does nothing for any other share.
void open_session_by_directory();

// The page index of an NVML device; kNoDevice where it is not in the share or there is no share.
std::uint32_t nvml_device_index(abi::nvmlDevice_t device);

ledger::SlotRef own_slot();

// The inode of this process's pid namespace: numbers of processes in the pages mean something here where it is theirs.
std::uint32_t own_namespace();

// CLOCK_MONOTONIC, some milliseconds coarse; a few nanoseconds, no system call.
std::int64_t coarse_now_ns();

// At most once a minute for each event (below 64) true: may it be said again?
bool may_say(std::uint32_t event);

}  // namespace headgate::limiter
