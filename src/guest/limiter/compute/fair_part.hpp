// How much of the time between a bracket's events was its own: a context divides the GPU with other streams, processes
// and shares.
#pragma once

#include <algorithm>
#include <cstdint>

#include "guest/limiter/compute/bracket.hpp"

namespace headgate::limiter {

inline constexpr std::int64_t kRecentBrackets = 16;
inline constexpr std::int64_t kLongNs = 8'000'000;  // hardly a turn has room for such a kernel
inline constexpr double kMaxBeside = 64;            // contexts that divide a GPU's time

// How long work of `length_ns` takes beside that of the share's other streams and processes.
inline std::int64_t beside_others_ns(const ContextMeter& context, std::int64_t length_ns) {
  const double times =
      static_cast<double>(context.lengths_ns) / static_cast<double>(std::max<std::int64_t>(1, context.new_ns));
  return static_cast<std::int64_t>(static_cast<double>(length_ns) * std::clamp(times, 1.0, kMaxBeside));
}

// The process that settles first pays for a stretch that several held: the estimate is a fair part of it, as much as of
// the last brackets together was new.
inline std::int64_t fair_part(ContextMeter& context, std::int64_t ours, std::int64_t fresh, std::int64_t length) {
  context.lengths_ns += length - context.lengths_ns / kRecentBrackets;
  context.new_ns += fresh - context.new_ns / kRecentBrackets;
  const double part =
      static_cast<double>(context.new_ns) / static_cast<double>(std::max<std::int64_t>(1, context.lengths_ns));
  return static_cast<std::int64_t>(static_cast<double>(ours) * std::min(1.0, part));
}

// Of a long command's time what other shares had meanwhile: by as much it may seem longer than it was thought to be. It
// is known late, at the beginning as at the end, and may be wrong, so it shortens nothing.
inline std::int64_t others_ns(const ContextMeter& context, const Bracket& bracket, std::int64_t length) {
  const bool several = context.pace->busy_streams.load(std::memory_order_relaxed) > 1 ||
                       context.account->several_until_ns.load(std::memory_order_relaxed) > bracket.opened_ns;
  if (!context.arbitrated || length < kLongNs || several) return 0;
  const std::uint64_t given_back_ns =
      context.account->neighbours_ns.load(std::memory_order_relaxed) - bracket.neighbours_ns;
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(given_back_ns), 0,
                                  std::max<std::int64_t>(0, length - std::max(bracket.expected_ns, length / 2)));
}

}  // namespace headgate::limiter
