// A share's gate on a GPU: the arbiter's word in the policy page, and what limiters report for it in the usage page.
//
// The daemon alone writes the gate; limiters wait on gate_epoch, a shared futex, for at most kTurnLookNs at a time.
// While a launch waits the daemon's heartbeat moves. A share is left alone where a waiter has looked for kDesertedNs
// and has seen no beat, or where the daemon has hung up and no other listens. Its launches then go on within
// DevicePolicy::compute_unattended_ppm, until the heartbeat moves again.
//
// Reports are plain stores of the process that owns the slot; killed between any two of them it leaves figures of a
// slot that is not live any more. All of them may be lies: they move the liar's own account.
#pragma once

#include <cstdint>

#include "guest/ledger/layout.hpp"

namespace headgate::ledger {

inline constexpr std::int64_t kTurnLookNs = 10'000'000;
inline constexpr std::int64_t kDesertedNs = 50'000'000;
// A launch that has waited so long is told of, to its program's user and to views.
inline constexpr std::int64_t kLongWaitNs = 5'000'000'000;
// A process that waits or has work in flight, and gives no pulse for so long, is stopped.
inline constexpr std::int64_t kNoPulseNs = 50'000'000;

// Owner only. Who sees the new epoch sees the new gate. `batch_ns`: 1.., where the gate is `portion`.
void write_gate(PolicyPage& policy, std::uint32_t device, Gate gate, std::int64_t batch_ns = 0);
// Owner only: a system call, and as long as it takes to wake a processor that sleeps. Of many, kMaxWoken: the others
// look by themselves (kTurnLookNs).
void wake_at_gate(PolicyPage& policy, std::uint32_t device);
// Whether who waits there has something to do; at the others they wait on.
constexpr bool lets_in(Gate gate) { return gate != Gate::shut && gate != Gate::queued; }
// The first, and the second where the gate lets somebody in.
void set_gate(PolicyPage& policy, std::uint32_t device, Gate gate, std::int64_t batch_ns = 0);
// Owner only: whether somebody decides from now on. The gate stays as it is.
void set_arbitrated(PolicyPage& policy, std::uint32_t device, bool arbitrated);

// What a slot's process reports of a device.
struct WorkReport {
  std::int64_t work_until_ns;
  bool waiting;
  std::uint32_t pulse;
  std::int64_t oldest_ns;  // when the oldest of it was sent; 0: none is
};
// Zeroes for a slot that is not live.
WorkReport work_of(const UsagePage& page, std::uint32_t device, std::uint32_t slot);

}  // namespace headgate::ledger
