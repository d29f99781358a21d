// When a launch may pass: pure, all time an argument. The account (shared by the share's processes) opens by time alone;
// the process keeps the work that it has sent ahead of the GPU small.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "guest/ledger/compute_account.hpp"

namespace headgate::limiter {

inline constexpr std::int64_t kInFlightNs = 1'000'000;  // 1 % of the 100 ms window
inline constexpr std::int64_t kLeadNs = 300'000;        // sent ahead so that a late wake-up does not idle the GPU
inline constexpr std::int64_t kBatchNs = 300'000;  // a waiter sleeps so much longer, to pass several launches at once
inline constexpr std::int64_t kLeastBatchNs = 200'000;  // and again where others have left less of that
inline constexpr std::int64_t kCatchUpNs =
    12'000'000;  // lateness that is made up for; see docs/decisions/catch-up-window.md
// Who waits for others' turns is late by theirs. What is made up for then is as long as everybody has had a turn in
// (schedule::kWindowNs), for as long as there were turns; see docs/decisions/arbiter.md.
inline constexpr std::int64_t kCatchUpInTurnsNs = 100'000'000;
inline constexpr std::int64_t kPatienceNs = 20'000'000;  // the longest wait behind unfinished work
// The longest that a launch waits behind work on its own stream, beside that: four times its own length, within these. With less, as
// many pass as end, and what was sent before the length was known stays ahead for good.
inline constexpr std::int64_t kLeastBehindNs = 1'000'000'000, kMostBehindNs = 8'000'000'000;
inline constexpr std::int64_t kSeenLateNs = 4'000'000;  // running work is marked as held no later than this
inline constexpr std::int64_t kLongestSleepNs = 10'000'000;

// One process's work on one device, by the estimates.
struct Pace {
  std::atomic<std::int64_t> busy_until_ns{0};  // when what was sent should be done
  std::atomic<std::int64_t> credit_ns{0};      // charged and not yet used by a launch: one pocket for all threads
  std::atomic<std::int32_t> open{0};           // brackets
  std::atomic<std::int32_t> busy_streams{0};   // with a bracket that is not settled
  std::atomic<std::int64_t> oldest_ns{0};      // when the oldest unfinished bracket was opened; 0: none is
  std::atomic<std::int64_t> last_debt_ns{0};   // when the last launch passed as debt
  std::atomic<std::int64_t> unsettled_ns{0};   // what closed brackets that are not settled were estimated at
  std::atomic<std::int64_t> ended_ns{0};       // when the last settled work had ended
  std::atomic<std::int64_t> turn_awaited_ns{-kCatchUpInTurnsNs};  // when a launch last waited for the share's turn
};

inline std::int64_t catch_up_ns(const Pace& pace, std::uint32_t ceiling_ppm, std::int64_t now_ns) {
  const bool in_turns = ceiling_ppm < ledger::kWholeGpu &&
                        now_ns - pace.turn_awaited_ns.load(std::memory_order_relaxed) < kCatchUpInTurnsNs;
  return in_turns ? kCatchUpInTurnsNs : kCatchUpNs;
}

struct Admission {
  std::int64_t wait_ns = 0;    // 0: it may pass
  std::int64_t credit_ns = 0;  // GPU time charged in advance, the command's own included
  bool debt = false;           // passed by the patience rule
};

inline bool take_credit(Pace& pace, std::int64_t est_ns) {
  if (pace.credit_ns.fetch_sub(est_ns, std::memory_order_relaxed) >= est_ns) return true;
  pace.credit_ns.fetch_add(est_ns, std::memory_order_relaxed);
  return false;
}

// When the next command may follow one that takes all the room by itself. Who sends one such at a time idles the GPU at each late wake-up.
inline std::int64_t lead_ns(std::int64_t est_ns) { return std::clamp(est_ns / 8, kLeadNs, kInFlightNs); }

// Takes room for est_ns..credit of work; 0 where there is none yet.
inline std::int64_t take_room(Pace& pace, std::int64_t now_ns, std::int64_t est_ns, std::int64_t wanted_ns) {
  std::int64_t busy = pace.busy_until_ns.load(std::memory_order_relaxed);
  while (true) {
    const std::int64_t ahead = std::max<std::int64_t>(0, busy - now_ns);
    if (ahead > lead_ns(est_ns) && ahead + est_ns > kInFlightNs) return 0;
    const std::int64_t credit = std::max(est_ns, std::min(wanted_ns, kInFlightNs - ahead));
    if (pace.busy_until_ns.compare_exchange_weak(busy, std::max(busy, now_ns) + credit, std::memory_order_relaxed))
      return credit;
  }
}

// A launch passes a turn's gate that was shut. Others had the GPU, and what was sent before may all be there still, whatever the
// estimates say. But behind a command that takes all the room, one too many ahead costs nobody anything (it is this share's turn), and
// one too few idles the GPU.
inline void count_after_shut_gate(Pace& pace, std::int64_t now_ns, std::int64_t est_ns) {
  if (est_ns > kInFlightNs) return;
  pace.busy_until_ns.store(now_ns + std::max<std::int64_t>(0, pace.unsettled_ns.load(std::memory_order_relaxed)));
}

inline void give_room(Pace& pace, std::int64_t unused_ns) {
  pace.busy_until_ns.fetch_sub(unused_ns, std::memory_order_relaxed);
}

inline Admission admit(ledger::ComputeAccount& account, Pace& pace, std::uint32_t ceiling_ppm, std::int64_t now_ns,
                       std::int64_t asked_ns, std::int64_t est_ns, bool crowded = false,
                       std::int64_t stream_due_ns = 0) {
  const std::int64_t lag = now_ns - ledger::paid_until_ns(account), late_ns = catch_up_ns(pace, ceiling_ppm, now_ns);
  Admission admission;
  // Processes that take turns with a launch or two each would meter as many brackets and lose a little at each handover.
  const bool crumbs = lag < kLeastBatchNs && now_ns != asked_ns && now_ns - asked_ns < kPatienceNs / 2;
  if (lag >= 0 && crumbs) {
    admission.wait_ns = kBatchNs - lag;
  } else if (lag >= 0) {
    const std::int64_t affordable = std::min(lag, kCatchUpNs) * ceiling_ppm / ledger::kWholeGpu;
    const std::int64_t credit = crowded ? 0 : take_room(pace, now_ns, est_ns, affordable);
    if (credit == 0) {
      const std::int64_t ahead = pace.busy_until_ns.load(std::memory_order_relaxed) - now_ns;
      admission.wait_ns =
          std::clamp<std::int64_t>(ahead - std::max(lead_ns(est_ns), (kInFlightNs - est_ns) / 2), 20'000, 700'000);
    } else {
      admission.wait_ns = ledger::try_charge(account, now_ns, credit, ceiling_ppm, late_ns);
      admission.credit_ns = credit;
      if (admission.wait_ns == 0) return admission;
      give_room(pace, credit);
      admission.credit_ns = 0;
    }
  } else {
    admission.wait_ns = -lag + kBatchNs;
  }
  const std::int64_t oldest = pace.oldest_ns.load(std::memory_order_relaxed);
  std::int64_t last = pace.last_debt_ns.load(std::memory_order_relaxed);
  // Work on a launch's own stream cannot wait for it: known to be long, it is given its time. But its thread may be the one
  // that everything waits for.
  const std::int64_t most_ns = std::clamp(4 * std::min(est_ns, kMostBehindNs), kLeastBehindNs, kMostBehindNs);
  const std::int64_t begun_ns = std::clamp(stream_due_ns, asked_ns, asked_ns + most_ns);
  // Work that has run through all that time while the gate was shut, in whatever process, may wait for this launch.
  const bool stuck =
      now_ns - begun_ns >= kPatienceNs &&
      ((oldest != 0 && now_ns - oldest >= kPatienceNs) ||
       (lag < 0 && ledger::held_throughout(account, now_ns - kPatienceNs - kSeenLateNs, now_ns - kSeenLateNs)));
  if (stuck && now_ns - last >= kPatienceNs &&
      pace.last_debt_ns.compare_exchange_strong(last, now_ns, std::memory_order_relaxed)) {
    ledger::charge_debt(account, now_ns, est_ns, ceiling_ppm, late_ns);
    pace.busy_until_ns.fetch_add(est_ns, std::memory_order_relaxed);
    return {.wait_ns = 0, .credit_ns = est_ns, .debt = true};
  }
  // All that wait look again at the instant when one may pass, so that none is always first.
  if (oldest != 0) {
    const std::int64_t turn =
        std::max({oldest, begun_ns, pace.last_debt_ns.load(std::memory_order_relaxed)}) + kPatienceNs;
    admission.wait_ns = std::min(admission.wait_ns, std::max<std::int64_t>(20'000, turn - now_ns));
  }
  admission.wait_ns = std::min(admission.wait_ns, kLongestSleepNs);
  return admission;
}

}  // namespace headgate::limiter
