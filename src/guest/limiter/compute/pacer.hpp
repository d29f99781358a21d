// Decides when a launch may pass. Pure: all times are arguments. The account (of the share) opens by time alone; the
// process limits the work that it has sent ahead of the GPU.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "guest/ledger/compute_account.hpp"

namespace headgate::limiter {

inline constexpr std::int64_t kInFlightNs = 1'000'000;  // 1 % of the 100 ms window
inline constexpr std::int64_t kLeadNs = 300'000;        // sent ahead, so that a late wake-up does not idle the GPU
inline constexpr std::int64_t kBatchNs = 300'000;     // additional sleep of a waiter, to pass several launches at once
inline constexpr std::int64_t kMinBatchNs = 200'000;  // sleep again if other processes left less than this of a batch
inline constexpr std::int64_t kCatchUpNs =
    12'000'000;  // lateness that is compensated; see docs/decisions/catch-up-window.md
// A launch that waits for others' turns is late by them. It may then catch up as much as the time in which every share
// has a turn (schedule::kWindowNs), while there are turns; see docs/decisions/arbiter.md.
inline constexpr std::int64_t kCatchUpInTurnsNs = 100'000'000;
inline constexpr std::int64_t kPauseNs = 1'000'000;      // caused by the program; a late wake-up does not count
inline constexpr std::int64_t kPatienceNs = 20'000'000;  // the longest wait behind unfinished work
// The longest additional wait of a launch behind work on its own stream: four times its length, within these bounds.
// With less, one passes for each that ends, and work sent before its length was known stays ahead.
inline constexpr std::int64_t kMinBehindNs = 1'000'000'000, kMaxBehindNs = 8'000'000'000;
inline constexpr std::int64_t kSeenLateNs = 4'000'000;            // running work is marked as held at most this late
inline constexpr std::int32_t kMaxUnknown = 4;                    // launches of unknown length in flight at once
inline constexpr std::int32_t kMaxUnknownInTurns = 1;             // and next to other shares
inline constexpr std::int64_t kMaxUnsettledNs = 3 * kInFlightNs;  // for work that counts as shorter than it may be
inline constexpr std::int64_t kLongestSleepNs = 10'000'000;

// One process's work on one device, by estimates. All members start as zero: otherwise all meter data, 6 MB, would be
// in the library's file (contract_check allows 128 KiB).
struct Pace {
  std::atomic<std::int64_t> busy_until_ns{0};   // when the work sent so far should end
  std::atomic<std::int64_t> credit_ns{0};       // charged but not yet used by a launch; one sum for all threads
  std::atomic<std::int32_t> open{0};            // brackets
  std::atomic<std::int32_t> busy_streams{0};    // with an unsettled bracket
  std::atomic<std::int64_t> oldest_ns{0};       // when the oldest unfinished bracket was opened; 0: none
  std::atomic<std::int64_t> last_debt_ns{0};    // when the last launch passed as debt
  std::atomic<std::int64_t> unsettled_ns{0};    // estimates of closed brackets that are not settled
  std::atomic<std::int64_t> long_ns{0};         // of that, for kernels that are known to be long
  std::atomic<std::int64_t> ended_ns{0};        // when the last settled work ended
  std::atomic<std::int32_t> unknown{0};         // launches in flight of functions never measured
  std::atomic<std::int64_t> lag_until_ns{0};    // until when kCatchUpInTurnsNs applies: turn_awaited_ns()
  std::atomic<std::int64_t> turn_began_ns{0};   // when a launch last passed a turn's gate that had been shut
  std::atomic<std::int64_t> wants_since_ns{0};  // when it last started to ask after its share was idle
  std::atomic<std::uint64_t> asked{0};          // the share's requests at its last request
  // How much longer its work takes next to the share's other processes, in 1/256.
  std::atomic<std::uint32_t> slowed{0};
  // While no daemon decides and the share has a span of each cycle (unattended.hpp); else all 0.
  std::atomic<std::int64_t> cycle_ns{0}, span_from_ns{0}, span_ns{0};
  std::atomic<std::int64_t> behind_ns{0};  // GPU time that others' long kernels kept from the share, by the arbiter

  // Returns when a launch last waited for the share's turn; -kCatchUpInTurnsNs: never.
  std::int64_t turn_awaited_ns() const { return lag_until_ns.load(std::memory_order_relaxed) - kCatchUpInTurnsNs; }
  void set_turn_awaited(std::int64_t now_ns) {
    lag_until_ns.store(now_ns + kCatchUpInTurnsNs, std::memory_order_relaxed);
  }
};

// Returns for how long after it last waited for a turn a share may still make up for `late_ns`: while it does, it has the
// GPU without waiting. At a ceiling of 80 % each 1 ms late takes 4 ms. ceiling_ppm: less than kWholeGpu.
constexpr std::int64_t makes_up_for_ns(std::int64_t late_ns, std::uint32_t ceiling_ppm) {
  return late_ns + late_ns * ceiling_ppm / (ledger::kWholeGpu - ceiling_ppm);
}

// Returns the catch-up window. A pause by the program is not lateness: others' turns count from its next request.
inline std::int64_t catch_up_ns(const Pace& pace, std::uint32_t ceiling_ppm, std::int64_t now_ns) {
  if (ceiling_ppm >= ledger::kWholeGpu) return kCatchUpNs;
  // Without a daemon a share waits for its span for most of a cycle, and others' last kernels may take half of one. That
  // counts also while it does not wait: it makes up for it before and after its span.
  const std::int64_t cycle_ns = pace.cycle_ns.load(std::memory_order_relaxed);
  const std::int64_t most_ns = std::max(kCatchUpInTurnsNs, cycle_ns + cycle_ns / 2);
  const bool in_turns = cycle_ns != 0 || now_ns - pace.turn_awaited_ns() < makes_up_for_ns(most_ns, ceiling_ppm);
  const std::int64_t wanted_ns = now_ns - pace.wants_since_ns.load(std::memory_order_relaxed);
  const std::int64_t turns_ns = in_turns ? most_ns - kCatchUpNs : 0;
  const std::int64_t behind_ns = ledger::price_ns(pace.behind_ns.load(std::memory_order_relaxed), ceiling_ppm);
  return kCatchUpNs + std::clamp<std::int64_t>(wanted_ns, 0, std::max(turns_ns, behind_ns));
}

// Records a launch request, the share's `requests`th. Returns how long nothing of the process was in flight before; 0
// if something is.
inline std::int64_t note_asked(Pace& pace, std::uint64_t requests, std::int64_t now_ns) {
  const bool others_asked = requests - pace.asked.exchange(requests, std::memory_order_relaxed) > 1;
  if (pace.busy_streams.load(std::memory_order_relaxed) != 0) return 0;
  const std::int64_t ended_ns = pace.ended_ns.load(std::memory_order_relaxed);
  if (ended_ns == 0 || ended_ns >= now_ns) return 0;
  if (now_ns - ended_ns >= kPauseNs && !others_asked) pace.wants_since_ns.store(now_ns, std::memory_order_relaxed);
  return now_ns - ended_ns;
}

struct Admission {
  std::int64_t wait_ns = 0;    // 0: it may pass
  std::int64_t credit_ns = 0;  // GPU time charged in advance, including this command
  bool debt = false;           // passed by the patience rule
};

inline bool take_credit(Pace& pace, std::int64_t est_ns) {
  if (pace.credit_ns.fetch_sub(est_ns, std::memory_order_relaxed) >= est_ns) return true;
  pace.credit_ns.fetch_add(est_ns, std::memory_order_relaxed);
  return false;
}

// Returns how early the next command may follow one that takes all the room. One such command at a time would idle the
// GPU at each late wake-up.
inline std::int64_t lead_ns(std::int64_t est_ns) { return std::clamp(est_ns / 8, kLeadNs, kInFlightNs); }

// The share's processes get GPU time slices in turn. slowed_ns() returns how long work takes among theirs, done_in_ns()
// how much work is done in a given time.
inline std::int64_t slowed_ns(const Pace& pace, std::int64_t gpu_ns) {
  return gpu_ns + gpu_ns / 256 * static_cast<std::int64_t>(pace.slowed.load(std::memory_order_relaxed));
}
inline std::int64_t done_in_ns(const Pace& pace, std::int64_t ns) {
  return ns / (256 + static_cast<std::int64_t>(pace.slowed.load(std::memory_order_relaxed))) * 256;
}

// Returns when all work should be done, of a time that any process of the share can write: now_ns if that is past, or
// further ahead than work ever is.
inline std::int64_t done_at_ns(std::int64_t until_ns, std::int64_t now_ns) {
  constexpr std::int64_t kFarNs = 600'000'000'000;
  return until_ns < now_ns || until_ns > now_ns + kFarNs ? now_ns : until_ns;
}
// Moves such a time by more work.
inline void add_to(std::atomic<std::int64_t>& until_ns, std::int64_t now_ns, std::int64_t gpu_ns) {
  std::int64_t seen = until_ns.load(std::memory_order_relaxed);
  while (!until_ns.compare_exchange_weak(seen, done_at_ns(seen, now_ns) + gpu_ns, std::memory_order_relaxed)) {
  }
}

inline void lower(std::atomic<std::int64_t>& until_ns, std::int64_t to_ns) {
  std::int64_t seen = until_ns.load(std::memory_order_relaxed);
  while (seen > to_ns && !until_ns.compare_exchange_weak(seen, to_ns, std::memory_order_relaxed)) {
  }
}

inline void raise(std::atomic<std::int64_t>& until_ns, std::int64_t to_ns) {
  std::int64_t seen = until_ns.load(std::memory_order_relaxed);
  while (seen < to_ns && !until_ns.compare_exchange_weak(seen, to_ns, std::memory_order_relaxed)) {
  }
}

// Takes room for work of est_ns..credit; returns 0 if there is none.
inline std::int64_t take_room(Pace& pace, std::int64_t now_ns, std::int64_t est_ns, std::int64_t wanted_ns) {
  std::int64_t busy = pace.busy_until_ns.load(std::memory_order_relaxed);
  while (true) {
    const std::int64_t ahead = done_in_ns(pace, std::max<std::int64_t>(0, busy - now_ns));
    if (ahead > lead_ns(est_ns) && ahead + est_ns > kInFlightNs) return 0;
    const std::int64_t credit = std::max(est_ns, std::min(wanted_ns, kInFlightNs - ahead));
    if (pace.busy_until_ns.compare_exchange_weak(busy, std::max(busy, now_ns) + slowed_ns(pace, credit),
                                                 std::memory_order_relaxed))
      return credit;
  }
}

// Call when a launch passes a turn's gate that had been shut. Others had the GPU, so all work sent before may still be
// ahead, whatever the estimates say. But behind a command that takes all the room, one too many ahead costs no other
// share anything (it is this share's turn), and one too few idles the GPU.
inline void count_after_shut_gate(Pace& pace, std::int64_t now_ns, std::int64_t est_ns) {
  pace.set_turn_awaited(now_ns);
  pace.turn_began_ns.store(now_ns, std::memory_order_relaxed);
  if (est_ns > kInFlightNs) return;
  const std::int64_t unsettled_ns = std::max<std::int64_t>(0, pace.unsettled_ns.load(std::memory_order_relaxed));
  pace.busy_until_ns.store(now_ns + slowed_ns(pace, unsettled_ns));
}

// Call when the oldest command, sent at sent_ns, still runs although the share has waited for its turn since: all
// commands behind it are still ahead. While others have the GPU, no estimate elapses.
inline void expect_rest(Pace& pace, std::int64_t sent_ns, std::int64_t expected_ns, std::int64_t now_ns) {
  if (pace.turn_awaited_ns() < sent_ns) return;
  raise(pace.busy_until_ns, now_ns + pace.unsettled_ns.load(std::memory_order_relaxed) - expected_ns);
}

// Call when the oldest command is known to have begun at began_ns, in turns: the first one of a turn is sent before the
// GPU is free.
inline void count_from_start(Pace& pace, std::int64_t began_ns) {
  if (pace.cycle_ns.load(std::memory_order_relaxed) == 0)
    raise(pace.busy_until_ns, began_ns + pace.unsettled_ns.load(std::memory_order_relaxed));
}

// The processes of a share together may have only as much in flight as one: at the end of a turn each would leave that
// much. This applies to commands measured one by one; of shorter ones a process takes its part in advance, and sends it
// later.
inline constexpr std::int64_t kSeveralForNs = 100'000'000;
// Time ends nothing while other shares have the GPU. So what has been sent and was not seen to end is bounded, too: by
// more, since a settler sees an end late.
inline constexpr std::int64_t kUnendedNs = 15'000'000;
inline constexpr std::int64_t kMaxUnendedNs = 100'000'000'000;  // a page that says more is damaged

// Returns whether another process of the share has sent such a command recently. sender: this process's, not 0.
inline bool several_send(ledger::ComputeAccount& account, std::uint64_t sender, std::int64_t now_ns) {
  if (account.sender.load(std::memory_order_relaxed) != sender) {
    if (account.sender.exchange(sender, std::memory_order_relaxed) != 0)
      account.several_until_ns.store(now_ns + kSeveralForNs, std::memory_order_relaxed);
  }
  const std::int64_t until_ns = account.several_until_ns.load(std::memory_order_relaxed);
  return now_ns < until_ns && until_ns <= now_ns + kSeveralForNs;  // any process of the share can write it
}

// A launch past a shut account waits this long for work never measured to be measured, in any process of the share.
// Without an arbiter no other share depends on that.
inline std::int64_t measuring_ns(bool in_turns) { return in_turns ? kMinBehindNs : kMinBehindNs / 10; }

// Takes room for a command; otherwise returns how long to wait before asking again. A process with nothing in flight
// goes before one that has work.
inline std::int64_t wait_for_share_ns(ledger::ComputeAccount& account, bool idle, std::int64_t now_ns,
                                      std::int64_t est_ns) {
  const std::int64_t lead = std::max(lead_ns(est_ns), kInFlightNs / 2) + (idle ? kInFlightNs : 0);
  const std::int64_t unended_ns =
      std::clamp<std::int64_t>(account.in_flight_ns.load(std::memory_order_relaxed), 0, kMaxUnendedNs);
  const std::int64_t too_many_ns = unended_ns - std::max(kUnendedNs, 2 * est_ns);
  std::int64_t sent = account.sent_until_ns.load(std::memory_order_relaxed);
  while (true) {
    const std::int64_t ahead_ns = std::max(done_at_ns(sent, now_ns) - now_ns, too_many_ns);
    if (ahead_ns > lead) return std::clamp<std::int64_t>(ahead_ns - lead, 20'000, 700'000);
    if (account.sent_until_ns.compare_exchange_weak(sent, now_ns + ahead_ns + est_ns, std::memory_order_relaxed))
      return 0;
  }
}
// Counts a command that passes as the share's work in flight, unless it has taken room.
inline void count_in_share(ledger::ComputeAccount& account, std::int64_t now_ns, std::int64_t est_ns, bool has_room) {
  if (!has_room) add_to(account.sent_until_ns, now_ns, est_ns);
  // All that was sent before should have ended.
  if (ledger::sane_paid_ns(account.sent_until_ns.load(std::memory_order_relaxed)) - est_ns <= now_ns)
    account.moved_ns.store(now_ns, std::memory_order_relaxed);
}
// Call when nothing of the share is in flight. What estimates were off by does not add up, nor what a killed process
// had in flight.
inline void nothing_in_share(ledger::ComputeAccount& account, std::int64_t now_ns) {
  lower(account.sent_until_ns, now_ns);
  account.in_flight_ns.store(0, std::memory_order_relaxed);
}
inline void give_share_room(ledger::ComputeAccount& account, std::int64_t unused_ns) {
  account.sent_until_ns.fetch_sub(unused_ns, std::memory_order_relaxed);
}
// Call when one of these has ended, which counted as est_ns; it did not need unused_ns of that.
inline void ended_in_share(ledger::ComputeAccount& account, const Pace& pace, std::int64_t est_ns,
                           std::int64_t unused_ns) {
  account.in_flight_ns.fetch_sub(est_ns, std::memory_order_relaxed);
  give_share_room(account, unused_ns);
  account.moved_ns.store(pace.ended_ns.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

inline void give_room(Pace& pace, std::int64_t unused_ns) {
  pace.busy_until_ns.fetch_sub(slowed_ns(pace, unused_ns), std::memory_order_relaxed);
}

inline Admission admit(ledger::ComputeAccount& account, Pace& pace, std::uint32_t ceiling_ppm, std::int64_t now_ns,
                       std::int64_t asked_ns, std::int64_t est_ns, bool crowded = false, std::int64_t stream_due_ns = 0,
                       bool measured = false, bool in_turns = false, std::int64_t share_due_ns = 0) {
  const std::int64_t lag = now_ns - ledger::paid_until_ns(account), late_ns = catch_up_ns(pace, ceiling_ppm, now_ns);
  Admission admission;
  // Processes alternating with a launch or two each would measure as many brackets, and lose time at each switch.
  const bool crumbs = lag < kMinBatchNs && now_ns != asked_ns && now_ns - asked_ns < kPatienceNs / 2;
  if (lag >= 0 && crumbs) {
    admission.wait_ns = kBatchNs - lag;
  } else if (lag >= 0) {
    const std::int64_t affordable = std::min(lag, kCatchUpNs) * ceiling_ppm / ledger::kWholeGpu;
    const std::int64_t credit = crowded ? 0 : take_room(pace, now_ns, est_ns, affordable);
    if (credit == 0) {
      const std::int64_t ahead = pace.busy_until_ns.load(std::memory_order_relaxed) - now_ns;
      const std::int64_t enough_ns = slowed_ns(pace, std::max(lead_ns(est_ns), (kInFlightNs - est_ns) / 2));
      admission.wait_ns = std::clamp<std::int64_t>(ahead - enough_ns, 20'000, 700'000);
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
  // Work on a launch's own stream cannot depend on it: if known to be long, it gets its time. But its thread may be the
  // one that all other work waits for.
  // Without turns the share's processes divide the GPU, and each kernel takes as much longer: eight times at most.
  const std::int64_t behind_ns = std::clamp(4 * std::min(est_ns, kMaxBehindNs), kMinBehindNs, kMaxBehindNs);
  const std::int64_t most_ns = measured && !in_turns ? std::min(slowed_ns(pace, behind_ns), 8 * behind_ns) : behind_ns;
  // Work of unknown length is expected to continue for as much time as it has run. But it may wait for the program,
  // which may queue a thousand commands behind it first: commands of a measured length add at most a quarter of the
  // time to the debt.
  const std::int64_t least_ns = std::max<std::int64_t>(0, 4 * std::min(est_ns, kMaxBehindNs) - kPatienceNs);
  const std::int64_t most_unknown_ns = measured ? std::min(least_ns, most_ns) : most_ns;
  // Next to other shares, another one of unknown length would make them wait.
  const std::int64_t least_unknown_ns = in_turns && !measured ? kMinBehindNs : 0;
  // Nothing that should still run is waiting for it, on any stream or in any process. The longest wait counts from the
  // last time that the share's work moved on: while commands end, the rest is not stuck.
  const std::int64_t since_ns = std::max(asked_ns, std::min(account.moved_ns.load(std::memory_order_relaxed), now_ns));
  const std::int64_t stream_begun_ns =
      stream_due_ns < 0
          ? asked_ns + std::clamp<std::int64_t>(asked_ns + stream_due_ns, least_unknown_ns, most_unknown_ns)
          : std::min(stream_due_ns, since_ns + most_ns);
  // Beside others' turns also with an open account: no gate takes back a second launch of unknown length.
  const bool beside_others = in_turns && now_ns - pace.turn_awaited_ns() < kCatchUpInTurnsNs;
  const std::int64_t unknown_due_ns =
      (lag < 0 || beside_others) && share_due_ns != 0
          ? ledger::sane_paid_ns(account.unknown_until_ns.load(std::memory_order_relaxed))
          : 0;
  const std::int64_t begun_ns =
      std::max({asked_ns, stream_begun_ns, std::min(share_due_ns, since_ns + (measured ? most_ns : kMaxBehindNs)),
                std::min(unknown_due_ns, since_ns + kMaxBehindNs)});
  // Work that ran through all that time with the gate shut, in any process, may be waiting for this launch.
  const bool stuck =
      now_ns - begun_ns >= kPatienceNs &&
      ((oldest != 0 && now_ns - oldest >= kPatienceNs) ||
       (lag < 0 && ledger::held_throughout(account, now_ns - kPatienceNs - kSeenLateNs, now_ns - kSeenLateNs)));
  const bool lately = now_ns - last < kPatienceNs && last - now_ns < kPatienceNs;
  if (stuck && !lately && pace.last_debt_ns.compare_exchange_strong(last, now_ns, std::memory_order_relaxed)) {
    account.last_debt_ns.store(now_ns, std::memory_order_relaxed);
    ledger::charge_debt(account, now_ns, est_ns, ceiling_ppm, late_ns);
    add_to(pace.busy_until_ns, now_ns, est_ns);
    return {.wait_ns = 0, .credit_ns = est_ns, .debt = true};
  }
  // All waiters look again when one may pass, so that none is always first.
  if (oldest != 0) {
    const std::int64_t turn =
        std::max({oldest, begun_ns, pace.last_debt_ns.load(std::memory_order_relaxed)}) + kPatienceNs;
    admission.wait_ns = std::min(admission.wait_ns, std::max<std::int64_t>(20'000, turn - now_ns));
  }
  admission.wait_ns = std::min(admission.wait_ns, kLongestSleepNs);
  return admission;
}

}  // namespace headgate::limiter
