// Decides when a launch may pass while no daemon runs, by the host's clock, which is common to all shares of a GPU.
// Each cycle has a time span per share, so shares rarely have work at once: no arbiter tells which of that time another
// had. A kernel may run over the end of its share's span. Which share has had its part is the account's matter, as in
// deficit round robin (Shreedhar and Varghese, SIGCOMM 1995), with GPU time in place of bytes. Pure.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "guest/ledger/unattended_cycle.hpp"
#include "guest/limiter/compute/pacer.hpp"

namespace headgate::limiter {

// Long enough that a thread that wakes late still hits its span.
inline constexpr std::int64_t kMinSpanNs = 2'000'000;
// What others' kernels took of a span may be made up for after its end, in such a part of a cycle.
inline constexpr std::int64_t kPastParts = 16;
// Or before it begins, by as much as is owed: near their span's end others wait for time that their next kernel needs.
inline constexpr std::int64_t kMostEarlyParts = 2;

// A share's place in the cycle.
struct Span {
  std::int64_t cycle_ns = ledger::kMinCycleNs;
  std::int64_t from_ns = 0, length_ns = 0;  // length 0: it needs none
};

constexpr Span span_of(std::int64_t cycle_ns, std::uint32_t from_ppm, std::uint32_t part_ppm) {
  const std::int64_t step_ns = cycle_ns / ledger::kWholeGpu;
  if (from_ppm >= ledger::kWholeGpu || part_ppm >= ledger::kWholeGpu) return {.cycle_ns = cycle_ns};
  return {cycle_ns, step_ns * from_ppm, std::max(step_ns * part_ppm, kMinSpanNs)};
}

// Returns the time since the share's last span began.
constexpr std::int64_t since_span_ns(const Span& span, std::int64_t now_ns) {
  return (now_ns % span.cycle_ns + span.cycle_ns - span.from_ns) % span.cycle_ns;
}

// Returns how long a launch of est_ns waits behind ahead_ns of its process's work; 0: it may pass. owed_ns: what the
// share has not had of its part. One that would run over the span's end passes if half of it is owed; then what it takes
// too much and too little are equal in the mean.
constexpr std::int64_t span_wait_ns(const Span& span, std::int64_t now_ns, std::int64_t ahead_ns, std::int64_t est_ns,
                                    std::int64_t owed_ns) {
  if (span.length_ns == 0) return 0;
  const std::int64_t since_ns = since_span_ns(span, now_ns);
  const std::int64_t begins_ns = (since_ns + std::max<std::int64_t>(0, ahead_ns)) % span.cycle_ns;
  if (begins_ns < span.length_ns && begins_ns + est_ns <= span.length_ns) return 0;
  const std::int64_t until_next_ns = span.cycle_ns - since_ns;
  const std::int64_t early_ns = std::min(owed_ns, span.cycle_ns / kMostEarlyParts);
  if (begins_ns >= span.length_ns + span.cycle_ns / kPastParts && begins_ns < span.cycle_ns - early_ns)
    return until_next_ns;
  // A kernel longer than the span can never be owed as much.
  const std::int64_t lacks_ns = std::min(est_ns, span.length_ns) / 2 - owed_ns;
  if (lacks_ns <= 0) return 0;
  return std::min(until_next_ns, std::max<std::int64_t>(20'000, span.cycle_ns / span.length_ns * lacks_ns));
}

// As above for a launch of the process, by the share's account; notes the span for the settler.
inline std::int64_t wait_for_span_ns(Pace& pace, const ledger::ComputeAccount& account, const Span& span,
                                     std::uint32_t part_ppm, std::int64_t now_ns, std::int64_t est_ns) {
  pace.span_from_ns.store(span.from_ns, std::memory_order_relaxed);
  pace.span_ns.store(span.length_ns, std::memory_order_relaxed);
  pace.cycle_ns.store(span.length_ns != 0 ? span.cycle_ns : 0, std::memory_order_relaxed);
  const std::int64_t late_ns =
      std::clamp<std::int64_t>(now_ns - ledger::paid_until_ns(account), 0, catch_up_ns(pace, part_ppm, now_ns));
  const std::int64_t ahead_ns = pace.busy_until_ns.load(std::memory_order_relaxed) - now_ns;
  return span_wait_ns(span, now_ns, ahead_ns, est_ns, late_ns / 1'000 * part_ppm / 1'000);
}
inline Span span_of(const Pace& pace) {
  return {pace.cycle_ns.load(std::memory_order_relaxed), pace.span_from_ns.load(std::memory_order_relaxed),
          pace.span_ns.load(std::memory_order_relaxed)};
}

// Returns whether another share may have had the GPU in [from_ns, to_ns): what ran over the end of its span.
constexpr bool near_span_ends(const Span& span, std::int64_t from_ns, std::int64_t to_ns) {
  const std::int64_t since_ns = since_span_ns(span, from_ns);
  return since_ns < span.cycle_ns / kPastParts || since_ns + (to_ns - from_ns) > span.length_ns;
}

// Tells whether a share uses less than half of its part. Then it needs no time span: it would wait most of a cycle for
// each launch, and takes little from others. One per device.
class SparseUse {
 public:
  // `held_ns`: of the share's account so far.
  bool is_sparse(std::int64_t now_ns, const Span& span, std::uint64_t held_ns) {
    constexpr auto kRelaxed = std::memory_order_relaxed;
    const std::int64_t cycle = now_ns / span.cycle_ns, half_ns = span.length_ns / 2;
    const auto used_ns = [&] { return static_cast<std::int64_t>(held_ns - held_then_ns_.load(kRelaxed)); };
    if (const std::int64_t last = cycle_.exchange(cycle, kRelaxed); last != cycle) {
      sparse_.store(last != cycle - 1 || used_ns() < half_ns, kRelaxed);
      held_then_ns_.store(held_ns, kRelaxed);
    }
    return sparse_.load(kRelaxed) && used_ns() < half_ns;
  }

 private:
  // The current cycle, what the share had held at its start, and whether it used less than half of its part in the one
  // before.
  std::atomic<std::int64_t> cycle_{0};
  std::atomic<std::uint64_t> held_then_ns_{0};
  std::atomic<bool> sparse_{true};
};

}  // namespace headgate::limiter
