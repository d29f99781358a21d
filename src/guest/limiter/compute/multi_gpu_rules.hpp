// When launches of ranks that wait for each other on several GPUs pass their ceilings: pure. What is done with it,
// multi_gpu_gate.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "guest/ledger/compute_account.hpp"
#include "guest/limiter/compute/pacer.hpp"

namespace headgate::limiter {

inline constexpr std::int64_t kRankOverdueNs =
    150'000;  // estimates are rarely so wrong, and spinning longer costs more than a look
// Where no rank was seen to wait lately it may be others' slices that work was late by.
inline constexpr std::int64_t kUnseenOverdueNs = 5'000'000;
inline constexpr std::int64_t kRankLookNs = 100'000;
inline constexpr std::int64_t kRanksForNs = 1'000'000'000;
// Ranks have waited for each other lately: all GPUs' gates open at one moment, whoever works on them. For less long,
// because it may have been another's estimate that was wrong.
inline constexpr std::int64_t kRanksPatienceNs = 5'000'000;

// Another GPU of the share. Times are ns of the account's clock.
struct RankPlace {
  std::int64_t paid_until_ns = 0;
  // When the share's work there should be done: the earliest; 0: there is none, or it waits for the share's turn, which
  // is what it is late by.
  std::int64_t due_ns = 0;
};

// How long a launch that was first asked for at asked_ns waits because other GPUs are not paid for.
inline std::int64_t wait_for_ranks_ns(std::span<const RankPlace> others, bool lately, std::int64_t asked_ns,
                                      std::int64_t now_ns) {
  const std::int64_t patience_ns = asked_ns + kRanksPatienceNs - now_ns;
  if (!lately || patience_ns <= 0) return 0;
  std::int64_t wait_ns = 0;
  for (const RankPlace& place : others) wait_ns = std::max(wait_ns, place.paid_until_ns - now_ns);
  return std::min({wait_ns, patience_ns, kLongestSleepNs});
}

// Whether work on another GPU may spin for a launch here, where `mine` is the process's pace.
inline bool a_rank_spins(const Pace& mine, std::span<const RankPlace> others, bool lately, std::int64_t now_ns) {
  const std::int64_t overdue_ns = lately ? kRankOverdueNs : kUnseenOverdueNs;
  // What was let through last has had its effect, and it was not enough.
  if (mine.busy_streams.load(std::memory_order_relaxed) != 0) return false;
  if (now_ns - mine.ended_ns.load(std::memory_order_relaxed) < kRankOverdueNs) return false;
  return std::ranges::any_of(
      others, [&](const RankPlace& place) { return place.due_ns != 0 && now_ns - place.due_ns >= overdue_ns; });
}

// How long a launch may sleep before it is worth another look at the above.
inline std::int64_t look_at_ranks_ns(std::span<const RankPlace> others, std::int64_t wait_ns, std::int64_t now_ns) {
  for (const RankPlace& place : others)
    if (place.due_ns != 0) wait_ns = std::min(wait_ns, std::max(kRankLookNs, place.due_ns + kRankOverdueNs - now_ns));
  return wait_ns;
}

// est_ns are charged although the account is not open, and are there for the launch that follows.
inline void charge_ahead(ledger::ComputeAccount& account, Pace& pace, std::int64_t est_ns, std::uint32_t rate_ppm,
                         std::int64_t now_ns) {
  ledger::charge_debt(account, now_ns, est_ns, rate_ppm, catch_up_ns(pace, rate_ppm, now_ns));
  account.passed_in_debt.fetch_add(1, std::memory_order_relaxed);
  std::int64_t busy = pace.busy_until_ns.load(std::memory_order_relaxed);
  while (!pace.busy_until_ns.compare_exchange_weak(busy, std::max(busy, now_ns) + est_ns, std::memory_order_relaxed)) {
  }
  // Into the prepaid time, from which it is taken at once.
  pace.credit_ns.fetch_add(est_ns, std::memory_order_relaxed);
}

}  // namespace headgate::limiter
