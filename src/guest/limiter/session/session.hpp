// One process's membership in its share: opened at the first successful driver or NVML call, never before.
#pragma once

#include <cstdint>

#include "guest/abi/cuda.hpp"
#include "guest/ledger/layout.hpp"
#include "guest/ledger/pages.hpp"

namespace headgate::limiter {

enum class Membership : std::uint32_t {
  unopened,  // no driver call has succeeded yet
  none,      // no grant concerns this process: everything passes through, unmetered
  member,    // pages mapped, slot claimed
  refused,   // a grant was asked for and cannot be kept: cuInit and nvmlInit fail, loudly, once
};

struct Session {
  std::atomic<Membership> membership;
  const ledger::PolicyPage* policy;  // read-only mapping
  ledger::UsagePage* usage;
  ledger::ShareGrant
      held;            // the share's name and GPUs as they were when the pages were checked: others may scribble there
  std::uint32_t slot;  // of this process
  std::uint32_t slot_generation;
  // CUDA ordinal -> index into the pages' device arrays; kNoDevice for a GPU outside the share.
  std::uint32_t device_index[64];
  std::uint32_t device_count;  // CUDA ordinals known
  char base[256];              // the runtime directory that the pages are in
  // What NVML shows of the node, in CUDA's order: indices into held.devices. None: every GPU, by the driver's own
  // numbers, because CUDA counts these too.
  std::uint8_t shown[ledger::kMaxDevices];
  std::uint32_t shown_count;
};
inline constexpr std::uint32_t kNoDevice = ~0u;

extern Session session;

// Opens the membership after the driver's own cuInit succeeded (idempotent, thread-safe). In a forked child it starts
// clean. Returns what cuInit must answer: CUDA_SUCCESS, or CUDA_ERROR_NOT_PERMITTED when refused.
abi::CUresult open_session();

// One line on stderr at level error, warn, info or debug if HEADGATE_LOG allows; never allocates. printf-like subset:
// %s %u %d %lu %lx.
enum class LogLevel : std::uint32_t { off, error, warn, info, debug };
bool log_wanted(LogLevel level);
__attribute__((format(printf, 2, 3))) void log_line(LogLevel level, const char* format, ...);

}  // namespace headgate::limiter
