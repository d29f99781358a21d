// How long a kernel takes if no other context has the GPU meanwhile, learned while a daemon runs. Its board shows when
// each context of the GPU had work, those of the share's other processes too (gpu_page.hpp). Used without a daemon,
// when no marks tell what others had (own_length.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "guest/limiter/compute/bracket.hpp"
#include "guest/limiter/compute/estimates.hpp"
#include "guest/limiter/compute/fair_part.hpp"

namespace headgate::limiter {

inline constexpr std::int64_t kReplayStepNs = 5'000'000;    // of a kernel that runs
inline constexpr std::int64_t kReplayEachNs = 100'000'000;  // a replay costs as much as the time that it looks at
inline constexpr std::int64_t kReplayReachNs = 30'000'000;  // that the board has, and what is replayed before it
inline constexpr std::int64_t kPartLost = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t kMarksLatestNs = 30'000'000;  // marks that are not on the board by then do not come

// Returns the time until which all marks are on the board.
inline std::int64_t marked_until_ns(const ledger::Seat& seat) {
  return seat.board->told_ns.load(std::memory_order_acquire) - ledger::kReplayLagNs;
}

// Adds others' part of a bracket that began at from_ns, as far as it is on the board; of one that runs on, in steps.
inline void note_others(ContextMeter& context, OthersPart& part, std::int64_t from_ns, std::int64_t to_ns,
                        std::int64_t step_ns) {
  if (part.until_ns == kPartLost) return;
  const std::int64_t begin_ns = std::max(from_ns, part.until_ns),
                     end_ns = std::min(to_ns, marked_until_ns(context.seat));
  if (end_ns - begin_ns > kReplayReachNs) part.until_ns = kPartLost;
  if (end_ns <= begin_ns || end_ns < begin_ns + step_ns || part.until_ns == kPartLost) return;
  const std::int64_t others_ns = ledger::others_on_board_ns(context.seat, context.replay, begin_ns, end_ns);
  part.ns += others_ns;
  part.until_ns = others_ns < 0 ? kPartLost : end_ns;
}

// Returns whether a bracket that began at from_ns is to be learned from: one kernel, of a context with one stream at work.
// A long one, or one that others' slices stretch so differently that the mean says little. Not if the share's processes
// divide the GPU: parts of short kernels are not exact enough.
inline bool is_wanted(const Estimates& estimates, const ContextMeter& context, const Bracket& bracket,
                      std::int64_t from_ns) {
  if (bracket.function_count != 1 || bracket.launches != 1) return false;
  const std::int64_t known_ns = estimates.known_ns(bracket.functions[0]);
  const bool stretched =
      known_ns >= kAloneNs && estimates.differs(bracket.functions[0]) && !brackets_overlap(*context.account);
  return context.arbitrated && context.seat.board != nullptr && from_ns - context.unlearned.to_ns >= kReplayEachNs &&
         (known_ns > ledger::kGpuSliceNs || stretched) &&
         context.pace->busy_streams.load(std::memory_order_relaxed) <= 1;
}

// Returns how long the arbiter should take the kernel to be; 0: not known. Those of less than 8 ms count as long as they
// take beside others: by that it lets them in, and tells ranks that wait for each other from work that is only slow.
inline std::int64_t told_length_ns(const Estimates& estimates, std::uint64_t function) {
  const std::int64_t undivided_ns = estimates.undivided_ns(function);
  return undivided_ns >= kLongNs ? undivided_ns : estimates.known_ns(function);
}

// Notes a bracket that has ended, if it is wanted.
inline void learn_later(const Estimates& estimates, ContextMeter& context, const Bracket& bracket, std::int64_t from_ns,
                        std::int64_t length_ns) {
  if (context.unlearned.function != 0 || !is_wanted(estimates, context, bracket, from_ns)) return;
  context.unlearned = {bracket.functions[0], from_ns, from_ns + length_ns, bracket.others};
}

// Learns from what learn_later() noted, once the board has all marks. Without a daemon, the estimates become what was
// learned.
inline void learn_undivided(Estimates& estimates, ContextMeter& context, std::int64_t now_ns) {
  if (context.pace->cycle_ns.load(std::memory_order_relaxed) != 0) {
    if (std::exchange(context.undivided_taken, true)) return;
    estimates.take_undivided();
    context.stretched = 0;
    context.unlearned.function = 0;
    return;
  }
  context.undivided_taken = false;
  auto& [function, from_ns, to_ns, others] = context.unlearned;
  if (function == 0) return;
  if (context.seat.board == nullptr) {
    function = 0;
    return;
  }
  if (marked_until_ns(context.seat) >= to_ns) {
    note_others(context, others, from_ns, to_ns, 0);
    const std::int64_t length_ns = to_ns - from_ns;
    if (others.until_ns == to_ns)
      estimates.learn_undivided(function, std::max(length_ns - others.ns, length_ns / ledger::kMaxSeats));
  } else if (now_ns - to_ns < kMarksLatestNs) {
    return;
  }
  function = 0;
}

}  // namespace headgate::limiter
