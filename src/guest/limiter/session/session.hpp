// A process's membership in its share: opened at the first successful driver or NVML call, never before.
#pragma once

#include <cstdint>
#include <string_view>

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

// A forked child starts as if the limiter had just been loaded: it does not own the parent's slot, pages and threads.
// Resets all that the limiter knows from the parent, in the child before fork() returns. Only stores, no lock: the
// copied thread may have held any. Defined in entry/fork.cpp, which alone knows every folder.
void reset_after_fork();
// The part of the membership, the slot and the pages.
void session_reset_after_fork();

// Writes one line to the log if HEADGATE_LOG allows the level; never allocates. printf subset: %s %u %d %lu %lx.
enum class LogLevel : std::uint32_t { off, error, warn, info, debug };
bool log_wanted(LogLevel level);
__attribute__((format(printf, 2, 3))) void log_line(LogLevel level, const char* format, ...);
// Until the environment has been read, errors go to stderr. `infos`: print infos even if `level` is lower.
void set_log_level(LogLevel level, bool infos = false);
// Takes an absolute path, opened for each line. No descriptor stays open that the program could close and reuse, a
// forked child can log, and log rotation works. Only the first call counts.
void set_log_file(std::string_view path);

}  // namespace headgate::limiter
