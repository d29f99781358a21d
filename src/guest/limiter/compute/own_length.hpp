// How long a bracket's kernels take without other shares' work, as far as it tells. While no daemon runs, no marks tell
// what others had of the GPU: kernels of known, even length count as that long, not as long as they took beside others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "guest/limiter/compute/fair_part.hpp"
#include "guest/limiter/compute/unattended.hpp"

namespace headgate::limiter {

inline constexpr std::int64_t kHandOverNs = 2'000'000;  // after a turn's start others' work may still run
inline constexpr std::uint32_t kStretchedInARow = 4;    // then it is the kernel that takes longer
inline constexpr std::int64_t kUsualParts = 64;         // an even kernel differs by such a part of its length
inline constexpr std::int64_t kSliceErrorParts = 16;    // of a slice: others' slices differ by less from whole ones
inline constexpr std::uint32_t kLongerInARow = 8;       // then it is the kernel that takes longer
// Of its estimate and a slice: beside other contexts' work it seldom takes as many times as long.
inline constexpr std::int64_t kMostTimes = 8;
inline constexpr std::int64_t kUsualEarlyParts = 4;  // of a cycle: shares that are owed time seldom begin earlier

inline bool uneven(const Estimates& estimates, const Bracket& bracket) {
  for (std::uint32_t i = 0; i < bracket.function_count; ++i)
    if (estimates.uneven(bracket.functions[i])) return true;
  return false;
}

// Returns whether the bracket says nothing about its kernel: another share had the GPU in between, as happens at both
// ends of a turn. For the last of several such in a row returns false, with the shortest in part_ns.
inline bool stretched(const Estimates& estimates, ContextMeter& context, const Bracket& bracket,
                      std::int64_t start_event_ns, std::int64_t& part_ns) {
  const std::int64_t began_ns = context.pace->turn_began_ns.load(std::memory_order_relaxed);
  const bool within_turn = context.pace->turn_awaited_ns() <= began_ns && start_event_ns - began_ns > kHandOverNs;
  const bool sure = within_turn || bracket.expected_ns > kLongNs;
  // Usually a quarter longer is not even. But a slice of another share is less than that of kernels from 8 ms on, and
  // each one learned moves the estimate by an eighth of it. From 16 ms on that is little.
  const std::int64_t expected_ns = bracket.expected_ns;
  const bool hides_slice = expected_ns > 4 * ledger::kGpuSliceNs && expected_ns < 8 * ledger::kGpuSliceNs;
  const std::int64_t differs_ns = hides_slice ? ledger::kGpuSliceNs / 2 : expected_ns / 4;
  const std::int64_t most_ns = expected_ns + (sure ? differs_ns : 0);
  const bool longer = context.arbitrated && part_ns > most_ns && !uneven(estimates, bracket);
  if (!longer) {
    context.stretched = 0;
    return false;
  }
  context.least_stretched_ns = context.stretched == 0 ? part_ns : std::min(context.least_stretched_ns, part_ns);
  if (++context.stretched < kStretchedInARow) return true;
  if (sure) return false;
  part_ns = context.least_stretched_ns;
  context.stretched = 0;
  return false;
}

// Returns whether the mean says how long each of the bracket's kernels takes.
inline bool is_known(const Estimates& estimates, const Bracket& bracket) {
  for (std::uint32_t i = 0; i < bracket.function_count; ++i)
    if (estimates.known_ns(bracket.functions[i]) == 0 || estimates.uneven(bracket.functions[i])) return false;
  return bracket.function_count != 0;
}

// Corrects what was booked for the bracket, and returns that. What runs for whole cycles holds its share's part at
// least: it may wait for another kernel.
inline std::int64_t count_as_expected(const Estimates& estimates, ContextMeter& context, const Bracket& bracket,
                                      const Span& span, std::int64_t length_ns, std::int64_t booked_ns) {
  const std::int64_t own_ns = std::max(expected_now_ns(estimates, bracket), length_ns / span.cycle_ns * span.length_ns);
  context.account->held_ns.fetch_add(static_cast<std::uint64_t>(own_ns - booked_ns), std::memory_order_relaxed);
  if (booked_ns > own_ns)
    context.account->neighbours_ns.fetch_add(static_cast<std::uint64_t>(booked_ns - own_ns), std::memory_order_relaxed);
  return own_ns;
}

// Returns whether others may have had the GPU during the bracket, so that it teaches nothing. part_ns: its own part of
// its length, as learned if not. new_ns: of its time, what the share was not charged for before. An estimate that is
// clearly wrong is replaced.
inline bool seems_longer(Estimates& estimates, ContextMeter& context, const Bracket& bracket, const Span& span,
                         std::int64_t from_ns, std::int64_t length_ns, std::int64_t new_ns, std::int64_t& part_ns) {
  const std::int64_t expected_ns = expected_now_ns(estimates, bracket);
  const std::int64_t usual_ns =
      expected_ns / kUsualParts + 2 * estimates.spread_ns(bracket.functions[0]) * bracket.launches;
  const auto replace = [&](std::int64_t bracket_ns) {
    if (bracket.function_count == 1)
      estimates.replace(bracket.functions[0], bracket_ns / std::max(1u, bracket.launches));
  };
  // Of many such in a row the shortest counts.
  const auto counts = [&](std::int64_t bracket_ns) {
    context.least_stretched_ns = context.stretched == 0 ? bracket_ns : std::min(context.least_stretched_ns, bracket_ns);
    if (++context.stretched < kLongerInARow) return;
    context.stretched = 0;
    replace(context.least_stretched_ns);
  };
  // What fits in one slice it had alone (own_slices_ns()).
  const bool is_sliced = length_ns > ledger::kGpuSliceNs && brackets_overlap(*context.account);
  const bool beside = is_beside_others(context, bracket) || is_sliced;
  // A kernel that a slice may lengthen: shares that are owed time begin before their span, some of them in each cycle.
  const std::int64_t early_ns = expected_ns > ledger::kGpuSliceNs ? span.cycle_ns / kUsualEarlyParts : 0;
  if (near_span_ends(span, from_ns, from_ns + length_ns + early_ns) || beside) {
    // No kernel takes less time beside others.
    const bool shorter = length_ns < expected_ns - usual_ns;
    if (shorter) replace(length_ns);
    part_ns = length_ns;
    const std::int64_t took_ns = beside ? new_ns : length_ns;
    if (took_ns > kMostTimes * (expected_ns + ledger::kGpuSliceNs)) return counts(took_ns), true;
    // What is only a little shorter counts if there are no better ones for long.
    return !shorter && (length_ns >= expected_ns || ++context.unclear < kLongerInARow);
  }
  context.unclear = 0;
  if (part_ns <= expected_ns + usual_ns) {
    context.stretched = 0;
    return false;
  }
  // Others' slices come before it and after each of its slices. In a short span a long kernel may run beside all of them.
  const std::int64_t more_ns = part_ns - expected_ns;
  const std::int64_t slices = (more_ns + ledger::kGpuSliceNs / 2) / ledger::kGpuSliceNs;
  const bool whole =
      std::abs(more_ns - slices * ledger::kGpuSliceNs) <= ledger::kGpuSliceNs / kSliceErrorParts * slices;
  if (!whole || slices > expected_ns / ledger::kGpuSliceNs + 1) counts(part_ns);
  return true;
}

}  // namespace headgate::limiter
