// Allocations that wait for memory instead of being refused, where the share's owner has said so
// (PolicyPage::oom_wait_ms).
//
// UsagePage::releases is even while nobody waits. A waiter makes it odd, looks once more whether there is room, and
// sleeps on it; who gives memory back finds it odd, makes it even and wakes all. A waiter that is killed leaves it odd,
// which costs the next give-back one wake for nobody. What gives no word (another share's frees, a raised limit, the
// dead) is found by looking again: waiters sleep kLookAgainNs at most.
//
// All functions are thread-safe and never block; a hostile page gives spurious wakes, or none.
#pragma once

#include <cstdint>

#include "guest/ledger/account.hpp"
#include "guest/ledger/layout.hpp"

namespace headgate::ledger {

inline constexpr std::int64_t kLookAgainNs = 50'000'000;
inline constexpr std::int64_t kTellWantEachNs = 1'000'000'000;  // while an allocation waits
inline constexpr std::int64_t kWantLastsNs = kTellWantEachNs + kTellWantEachNs / 2;
inline constexpr std::uint32_t kLongestOomWaitMs = 3'600'000;

// "I am about to wait": look for room after this, then sleep with wait_for_release().
[[nodiscard]] std::uint32_t expect_release(UsagePage& page);
// Sleeps until memory was given back since `expected`, kLookAgainNs at most; may wake spuriously. Restores errno.
void wait_for_release(const UsagePage& page, std::uint32_t expected);
// Memory was given back. One load while nobody waits. Restores errno.
void tell_released(UsagePage& page);

// What somebody lacks: the share's own room, or (of_card) the card's though the share has some.
struct Want {
  std::uint32_t epoch = 0;  // moves with each request, and while it waits
  std::uint32_t pid = 0;    // as the share's processes see it; 0: not known
  std::uint64_t bytes = 0;
  bool of_card = false;
};
void note_want(UsagePage& page, std::uint32_t device, SlotRef slot, std::uint64_t bytes, bool of_card);
// The last one, as a tenant wrote it: a hint.
[[nodiscard]] Want last_want(const UsagePage& page, std::uint32_t device);

// Whether there was one so shortly before now_ns (bare::host_ns()) that its allocation may wait still.
[[nodiscard]] bool wanted_lately(const UsagePage& page, std::uint32_t device, std::int64_t now_ns);

// Owner only. oom_wait_ms: 0 (refused at once)..kLongestOomWaitMs, more counts as that.
void set_waiting(PolicyPage& policy, bool ask_first, std::uint32_t oom_wait_ms);
// Owner only: all who wait in this share are refused now.
void deny_waiters(PolicyPage& policy, UsagePage& usage);

}  // namespace headgate::ledger
