// How much of the time between a bracket's events was its own: a context shares the GPU with other streams, processes
// and shares.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "guest/limiter/compute/bracket.hpp"
#include "guest/limiter/compute/estimates.hpp"

namespace headgate::limiter {

inline constexpr std::int64_t kRecentBrackets = 32;
inline constexpr std::int64_t kSideBySideNs = 1'000'000'000;  // since several streams of a context last had work
inline constexpr std::int64_t kAtOnceNs = kAloneNs / 2;  // two long kernels that end so close to each other ran at once
inline constexpr std::int64_t kMaxRecentNs = 1ll << 50;
inline constexpr std::int64_t kLongNs = 8'000'000;  // hardly a turn has room for such a kernel
inline constexpr double kMaxBeside = 64;            // contexts that divide a GPU's time

// Returns how many of the share's brackets ran at once: the total length of recent ones of all its processes, divided
// by how much of that was new. Any process can write both.
inline double brackets_at_once(const ledger::ComputeAccount& account) {
  const std::int64_t lengths_ns = account.lengths_ns.load(std::memory_order_relaxed);
  const std::int64_t new_ns = account.new_ns.load(std::memory_order_relaxed);
  const double times = static_cast<double>(lengths_ns) / static_cast<double>(std::max<std::int64_t>(1, new_ns));
  return std::clamp(times, 1.0, kMaxBeside);
}

// Returns whether several of the share's contexts lately had work at once. Unlike several_send(), also if their kernels
// are short.
inline bool brackets_overlap(const ledger::ComputeAccount& account) { return brackets_at_once(account) > 1.1; }

// Returns how long work of `length_ns` takes next to that of the share's other streams and processes.
inline std::int64_t beside_others_ns(const ContextMeter& context, std::int64_t length_ns) {
  return static_cast<std::int64_t>(static_cast<double>(length_ns) * brackets_at_once(*context.account));
}

// Returns how long the bracket should take by the current estimates; 0: unknown. Those at its launch may know less, or
// be of the time with a daemon, when others' work counted in.
inline std::int64_t expected_now_ns(const Estimates& estimates, const Bracket& bracket) {
  return bracket.function_count == 1 ? estimates.known_ns(bracket.functions[0]) * bracket.launches
                                     : bracket.expected_ns;
}

// Returns when all work on the stream should end, by current estimates, which may know more than at its launch.
// Negative: unknown; minus the time the oldest was opened. 0: there was none yet.
inline std::int64_t queue_due_ns(const StreamMeter& stream, const Estimates& estimates) {
  const std::uint32_t head = stream.head.load(std::memory_order_relaxed);
  const std::uint32_t tail = stream.tail.load(std::memory_order_acquire);
  const std::int64_t ended_ns = stream.last_end_ns == 0 ? 0 : stream.context->clock.host_ns(stream.last_end_ns);
  if (head == tail) return ended_ns;
  const std::int64_t opened_ns = stream.closed[head % StreamMeter::kClosed].opened_ns;
  std::int64_t length_ns = 0;
  for (std::uint32_t i = head; i != tail; ++i) {
    const std::int64_t each_ns = expected_now_ns(estimates, stream.closed[i % StreamMeter::kClosed]);
    if (each_ns == 0) return -opened_ns;
    length_ns += each_ns;
  }
  // Extended by the work of the share's other streams and processes.
  return std::max(opened_ns, ended_ns) + beside_others_ns(*stream.context, length_ns);
}

// Returns a context's part of `length_ns` in which it shared the GPU's time slices with others of its share. It lost
// the GPU after each of its slices, for the length of theirs. What fits in one slice it had alone.
inline std::int64_t own_slices_ns(std::int64_t length_ns, double at_once) {
  const auto slice_ns = static_cast<double>(ledger::kGpuSliceNs), length = static_cast<double>(length_ns);
  if (length <= slice_ns) return length_ns;
  const auto losses = static_cast<double>(static_cast<std::int64_t>((length / slice_ns - 1) / at_once) + 1);
  return static_cast<std::int64_t>(std::max(length - losses * (at_once - 1) * slice_ns, length / at_once / 2));
}

// The process that settles first pays for a span that several held, so the payment does not show its own part. Several
// streams of one process share the time between their events equally.
inline std::int64_t fair_part(ContextMeter& context, std::int64_t ours, std::int64_t fresh, std::int64_t length,
                              std::int64_t now_ns) {
  const auto add = [](std::atomic<std::int64_t>& sum, std::int64_t ns) {
    const std::int64_t before_ns = std::clamp<std::int64_t>(sum.load(std::memory_order_relaxed), 0, kMaxRecentNs);
    sum.store(before_ns + ns - before_ns / kRecentBrackets, std::memory_order_relaxed);
  };
  add(context.account->lengths_ns, length);
  add(context.account->new_ns, fresh);
  const double at_once = brackets_at_once(*context.account);
  const std::int32_t busy = context.pace->busy_streams.load(std::memory_order_relaxed);
  if (busy > 1) context.side_by_side_ns = now_ns;
  const bool streams = now_ns - context.side_by_side_ns < kSideBySideNs;
  context.side_by_side = std::max({streams ? context.side_by_side : 1, busy, 1});
  // Work of the process's own streams is counted when it is sent.
  const double times = std::max(1.0, at_once / context.side_by_side);
  context.pace->slowed.store(static_cast<std::uint32_t>((times - 1) * 256), std::memory_order_relaxed);
  if (streams) return static_cast<std::int64_t>(static_cast<double>(ours) / at_once);
  return own_slices_ns(ours, at_once);
}

// Return whether other processes of its share had work at the same time, the second also whether other streams did.
inline bool is_beside_processes(const ContextMeter& context, const Bracket& bracket) {
  return context.account->several_until_ns.load(std::memory_order_relaxed) > bracket.opened_ns;
}
inline bool is_beside_others(const ContextMeter& context, const Bracket& bracket) {
  return context.pace->busy_streams.load(std::memory_order_relaxed) > 1 || is_beside_processes(context, bracket);
}

// Returns how long a bracket was by itself, by what its context's other streams did; 0: that is not known. Without turns,
// if nothing of theirs ran beside it, all of it. Or kernels run one after another, as those do that each take the whole
// GPU, and its length is the time since the last of the others ended. Unknown if some ended nearly together lately: they
// run at once. Start and end are GPU times of the bracket, now_ns is host time.
inline std::int64_t own_length_ns(ContextMeter& context, std::int64_t start_ns, std::int64_t end_ns,
                                  std::int64_t now_ns) {
  const std::int64_t last_ns = std::exchange(context.last_end_ns, std::max(context.last_end_ns, end_ns));
  const std::int64_t length_ns = end_ns - std::max(start_ns, last_ns);
  const bool alone =
      last_ns != 0 && last_ns <= start_ns && context.pace->busy_streams.load(std::memory_order_relaxed) <= 1;
  if (alone && !has_turns(context)) return length_ns;
  if (last_ns - start_ns > kAtOnceNs) context.overlap_ns = now_ns;
  if (std::abs(end_ns - last_ns) < kAtOnceNs) context.at_once_ns = now_ns;
  const bool in_line = now_ns - context.overlap_ns < kSideBySideNs && now_ns - context.at_once_ns >= kSideBySideNs;
  return in_line ? std::max<std::int64_t>(0, length_ns) : 0;
}

// Returns the time that other shares had during a long command, by which it may seem longer than its estimate. That
// time is known late, at both ends, and may be wrong, so it never makes the command shorter than its estimate.
inline std::int64_t others_ns(const Estimates& estimates, const ContextMeter& context, const Bracket& bracket,
                              std::int64_t length) {
  if (!context.arbitrated || length < kLongNs || is_beside_others(context, bracket)) return 0;
  const std::uint64_t given_back_ns =
      context.account->neighbours_ns.load(std::memory_order_relaxed) - bracket.neighbours_ns;
  // In a share without a ceiling it may have counted as short.
  const std::int64_t known_ns = bracket.function_count == 1 ? estimates.known_ns(bracket.functions[0]) : 0;
  const std::int64_t least_ns = std::max({bracket.expected_ns, known_ns * bracket.launches, length / 2});
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(given_back_ns), 0,
                                  std::max<std::int64_t>(0, length - least_ns));
}

}  // namespace headgate::limiter
