// Decides when launches of ranks that wait for each other on several GPUs pass their ceilings. Pure; applied by
// multi_gpu_gate.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "guest/ledger/compute_account.hpp"
#include "guest/limiter/compute/pacer.hpp"

namespace headgate::limiter {

inline constexpr std::int64_t kRankOverdueNs =
    150'000;  // estimates are rarely this wrong, and spinning longer costs more than a look
// If no rank was seen waiting recently, other shares' time slices may have delayed the work.
inline constexpr std::int64_t kUnseenOverdueNs = 5'000'000;
inline constexpr std::int64_t kRankLookNs = 100'000;
inline constexpr std::int64_t kRanksForNs = 1'000'000'000;
// If ranks have waited for each other recently, all GPUs' gates open at the same moment. The wait is short, because
// another rank's estimate may have been wrong.
inline constexpr std::int64_t kRanksPatienceNs = 5'000'000;

// Another GPU of the share. Times are ns of the account's clock.
struct RankPlace {
  std::int64_t paid_until_ns = 0;
  // When the share's work there should be done: the earliest; 0: there is none, or it waits for the share's turn, which
  // is what it is late by.
  std::int64_t due_ns = 0;
  bool runs = true;  // late_work_runs()
};

// Returns whether late work has the GPU, as far as that is known by now. What other shares keep from it is late too, but
// does not spin.
inline bool late_work_runs(const ledger::ComputeAccount& account, std::int64_t due_ns, std::int64_t now_ns) {
  const std::int64_t from_ns = std::max(due_ns, now_ns - kUnseenOverdueNs);
  return due_ns != 0 && ledger::held_throughout(account, from_ns, now_ns - kSeenLateNs);
}

// Returns until when the share's work on a GPU is not late, if its estimates end at due_ns. Where several processes
// divide the GPU, each waits for the others' slices: no command may end until all that they sent is done, and beside
// another share's long kernel that takes twice its time. While any of their commands ends, none spins.
inline std::int64_t late_from_ns(const ledger::ComputeAccount& account, std::int64_t due_ns, std::int64_t now_ns) {
  // Any process of the share can write all of these.
  const std::int64_t until_ns = account.several_until_ns.load(std::memory_order_relaxed);
  if (due_ns == 0 || until_ns <= now_ns || until_ns > now_ns + kSeveralForNs) return due_ns;
  const std::int64_t moved_ns = std::min(account.moved_ns.load(std::memory_order_relaxed), now_ns);
  const std::int64_t sent_ns = ledger::sane_paid_ns(account.sent_until_ns.load(std::memory_order_relaxed)) - moved_ns;
  return std::max(ledger::sane_paid_ns(due_ns), moved_ns + 2 * std::max<std::int64_t>(0, sent_ns)) + kUnseenOverdueNs;
}

// Returns how long a launch requested at asked_ns waits because other GPUs are not paid for.
inline std::int64_t wait_for_ranks_ns(std::span<const RankPlace> others, bool lately, std::int64_t asked_ns,
                                      std::int64_t now_ns) {
  const std::int64_t patience_ns = asked_ns + kRanksPatienceNs - now_ns;
  if (!lately || patience_ns <= 0) return 0;
  std::int64_t wait_ns = 0;
  for (const RankPlace& place : others) wait_ns = std::max(wait_ns, place.paid_until_ns - now_ns);
  return std::min({wait_ns, patience_ns, kLongestSleepNs});
}

// Returns whether work on another GPU may be spinning for a launch here; `mine` is the process's pace.
inline bool a_rank_spins(const Pace& mine, std::span<const RankPlace> others, bool lately, std::int64_t now_ns) {
  const std::int64_t overdue_ns = lately ? kRankOverdueNs : kUnseenOverdueNs;
  // The last launch let through has run, and was not enough.
  if (mine.busy_streams.load(std::memory_order_relaxed) != 0) return false;
  if (now_ns - mine.ended_ns.load(std::memory_order_relaxed) < kRankOverdueNs) return false;
  return std::ranges::any_of(others, [&](const RankPlace& place) {
    return place.due_ns != 0 && now_ns - place.due_ns >= overdue_ns && (lately || place.runs);
  });
}

// Returns until when ranks count as waiting for each other, now that one seems to spin. While they do, any work that is
// late may be taken for that, so only such as had the GPU meanwhile extends it.
inline std::int64_t ranks_until_ns(std::span<const RankPlace> others, std::int64_t until_ns, std::int64_t now_ns) {
  return now_ns >= until_ns || std::ranges::any_of(others, &RankPlace::runs) ? now_ns + kRanksForNs : until_ns;
}

// Returns how long a launch may sleep before it should check the above again.
inline std::int64_t look_at_ranks_ns(std::span<const RankPlace> others, std::int64_t wait_ns, std::int64_t now_ns) {
  for (const RankPlace& place : others)
    if (place.due_ns != 0) wait_ns = std::min(wait_ns, std::max(kRankLookNs, place.due_ns + kRankOverdueNs - now_ns));
  return wait_ns;
}

// Charges est_ns although the account is not open, as credit for the launch that follows.
inline void charge_ahead(ledger::ComputeAccount& account, Pace& pace, std::int64_t est_ns, std::uint32_t rate_ppm,
                         std::int64_t now_ns) {
  ledger::charge_debt(account, now_ns, est_ns, rate_ppm, catch_up_ns(pace, rate_ppm, now_ns));
  account.passed_in_debt.fetch_add(1, std::memory_order_relaxed);
  std::int64_t busy = pace.busy_until_ns.load(std::memory_order_relaxed);
  while (!pace.busy_until_ns.compare_exchange_weak(busy, std::max(busy, now_ns) + est_ns, std::memory_order_relaxed)) {
  }
  // Added to the prepaid time, from which it is taken at once.
  pace.credit_ns.fetch_add(est_ns, std::memory_order_relaxed);
}

}  // namespace headgate::limiter
