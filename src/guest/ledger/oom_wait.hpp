// Allocations that wait for memory instead of being refused, if the share's owner enables it (PolicyPage::oom_wait_ms).
//
// UsagePage::releases is even while no allocation waits. A waiter makes it odd, checks again for room, and sleeps on
// it; a process that gives memory back makes an odd value even and wakes all. A killed waiter leaves it odd, which
// costs one useless wake. Some changes send no wake (another share's frees, a raised limit, deaths), so waiters sleep
// at most kLookAgainNs.
//
// All functions are thread-safe. Only wait_for_release() blocks. A hostile page gives spurious wakes, or none.
#pragma once

#include <cstdint>

#include "guest/ledger/account.hpp"
#include "guest/ledger/layout.hpp"

namespace headgate::ledger {

inline constexpr std::int64_t kLookAgainNs = 50'000'000;
inline constexpr std::int64_t kTellWantEachNs = 1'000'000'000;  // while an allocation waits
inline constexpr std::int64_t kWantLastsNs = kTellWantEachNs + kTellWantEachNs / 2;
inline constexpr std::uint32_t kLongestOomWaitMs = 3'600'000;

// Announces a wait: check for room after this, then sleep with wait_for_release().
[[nodiscard]] std::uint32_t expect_release(UsagePage& page);
// Sleeps until memory is given back after `expected`, at most kLookAgainNs; may wake spuriously. Restores errno.
void wait_for_release(const UsagePage& page, std::uint32_t expected);
// Wakes waiters after memory was given back. One load while there are none. Restores errno.
void tell_released(UsagePage& page);

// What an allocation lacks: room in the share, or (of_card) memory on the card although the share has room.
struct Want {
  std::uint32_t epoch = 0;  // moves with each request, and while it waits
  std::uint32_t pid = 0;    // as the share's processes see it; 0: unknown
  std::uint64_t bytes = 0;
  bool of_card = false;
};
void note_want(UsagePage& page, std::uint32_t device, SlotRef slot, std::uint64_t bytes, bool of_card);
// Returns the latest want as a tenant wrote it: a hint.
[[nodiscard]] Want last_want(const UsagePage& page, std::uint32_t device);

// Returns whether the last want is so recent at now_ns (bare::host_ns()) that its allocation may still wait.
[[nodiscard]] bool wanted_lately(const UsagePage& page, std::uint32_t device, std::int64_t now_ns);

// Owner only. oom_wait_ms: 0 (refused at once)..kLongestOomWaitMs; larger values are clamped.
void set_waiting(PolicyPage& policy, bool ask_first, std::uint32_t oom_wait_ms);
// Owner only. Refuses all allocations that wait in this share.
void deny_waiters(PolicyPage& policy, UsagePage& usage);

}  // namespace headgate::ledger
