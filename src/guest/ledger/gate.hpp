// A share's gate on a GPU: the arbiter's decision in the policy page, and the limiters' reports in the usage page.
//
// Only the daemon writes the gate; limiters wait on gate_epoch, a shared futex, at most kTurnLookNs at a time. The
// daemon's heartbeat moves while a launch waits. A share is unattended if a waiter saw no beat for kDesertedNs, or if
// the daemon hung up and no other listens. Its launches then continue within DevicePolicy::compute_unattended_ppm until
// the heartbeat moves again.
//
// Reports are plain stores by the process that owns the slot. If it is killed in between, the slot is no longer live
// and its figures do not count. Reports may be false: they only affect the reporter's own account.
#pragma once

#include <cstdint>

#include "guest/ledger/layout.hpp"

namespace headgate::ledger {

inline constexpr std::int64_t kTurnLookNs = 10'000'000;
inline constexpr std::int64_t kMaxOpensInNs = 2'000'000;
inline constexpr std::int64_t kDesertedNs = 50'000'000;
// A launch that waits this long is reported to its program's user and in views.
inline constexpr std::int64_t kLongWaitNs = 5'000'000'000;
// A process that waits or has work in flight counts as stopped after this long without a pulse.
inline constexpr std::int64_t kNoPulseNs = 50'000'000;

// The batch that is written with a closed gate while the share's last kernels have the GPU until they end: the process
// whose work ends last rings. Older daemons write 1 us there.
inline constexpr std::int64_t kEndingNs = 2'000;
// Owner only. A reader that sees the new epoch sees the new gate. `batch_ns` (1..) is used if the gate is `batch`, or
// kEndingNs; `opens_ns` if it is `open`: launches pass from then on, by the host's clock. At most kMaxOpensInNs from now;
// 0: now.
void write_gate(PolicyPage& policy, std::uint32_t device, Gate gate, std::int64_t batch_ns = 0,
                std::int64_t opens_ns = 0);
// Returns whether an `open` gate may open later than now: no clock needs to be read if not.
inline bool may_open_later(const DevicePolicy& policy) { return policy.opens_us.load(std::memory_order_relaxed) != 0; }
// Returns how long until launches pass at an `open` gate; 0: they do.
std::int64_t opens_in_ns(const DevicePolicy& policy, std::int64_t now_ns);
// Owner only. Makes a system call, which takes longer if it wakes a sleeping processor. Wakes at most kMaxWoken; the
// other waiters look again by themselves (kTurnLookNs).
void wake_at_gate(PolicyPage& policy, std::uint32_t device);
// Returns whether a waiter can do something at this gate; at the other gates it keeps waiting.
constexpr bool lets_in(Gate gate) { return gate != Gate::shut && gate != Gate::queued; }
// Returns whether the gate is closed and its share's last kernels still have the GPU.
inline bool is_ending(const DevicePolicy& policy) {
  return !lets_in(policy.gate.load(std::memory_order_relaxed)) &&
         policy.batch_us.load(std::memory_order_relaxed) == kEndingNs / 1'000;
}
// Returns what PolicyPage::behind_ms says of that: full steps, since launches look at the page.
constexpr std::uint16_t behind_ms(std::int64_t behind_ns) {
  constexpr std::int64_t kStepMs = 10, kMostMs = 60'000;
  const std::int64_t ms = behind_ns / 1'000'000;
  return static_cast<std::uint16_t>((ms < kMostMs ? ms : kMostMs) / kStepMs * kStepMs);
}
// Owner only. Sets whether an arbiter decides from now on. The gate does not change.
void set_arbitrated(PolicyPage& policy, std::uint32_t device, bool arbitrated);

// What a slot's process reports about a device.
struct WorkReport {
  std::int64_t work_until_ns;
  bool waiting;
  std::uint32_t pulse;
  std::int64_t oldest_ns;  // when the oldest work in flight was sent; 0: none
};
// Returns zeroes for a slot that is not live.
WorkReport work_of(const UsagePage& page, std::uint32_t device, std::uint32_t slot);

}  // namespace headgate::ledger
