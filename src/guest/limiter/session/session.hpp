// A process's membership in its share: opened at the first successful driver or NVML call, never before.
#pragma once

#include <cstdint>

#include "guest/abi/cuda.hpp"
#include "guest/ledger/layout.hpp"
#include "guest/ledger/pages.hpp"

namespace headgate::limiter {

enum class Membership : std::uint32_t {
  unopened,  // no driver call has succeeded yet
  none,      // no grant applies: everything passes through, unmetered
  member,    // pages mapped, slot claimed
  refused,   // a grant was requested and cannot be kept: cuInit and nvmlInit fail, with an error logged once
};

struct Session {
  std::atomic<Membership> membership;
  const ledger::PolicyPage* policy;  // read-only mapping
  ledger::UsagePage* usage;
  ledger::ShareGrant held;  // name and GPUs when the pages were checked: others may overwrite those
  std::uint32_t slot;       // of this process
  std::uint32_t slot_generation;
  // CUDA ordinal -> index into the pages' device arrays; kNoDevice for a GPU outside the share.
  std::uint32_t device_index[64];
  std::uint32_t device_count;  // known CUDA ordinals
  char base[256];              // runtime directory of the pages
  // What NVML shows, in CUDA's order: indices into held.devices. None: all GPUs, by the driver's numbers, because CUDA
  // uses these too.
  std::uint8_t shown[ledger::kMaxDevices];
  std::uint32_t shown_count;
};
inline constexpr std::uint32_t kNoDevice = ~0u;

extern Session session;

// Opens the membership after the driver's cuInit succeeded (idempotent, thread-safe). A forked child starts over.
// Returns what cuInit should return: CUDA_SUCCESS, or CUDA_ERROR_NOT_PERMITTED if refused.
abi::CUresult open_session();

// Writes one line to the log if HEADGATE_LOG allows the level; never allocates. printf subset: %s %u %d %lu %lx.
enum class LogLevel : std::uint32_t { off, error, warn, info, debug };
bool log_wanted(LogLevel level);
__attribute__((format(printf, 2, 3))) void log_line(LogLevel level, const char* format, ...);

}  // namespace headgate::limiter
