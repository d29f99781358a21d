// What the time of a bracket's launch calls says of when its kernels were there.
#pragma once

#include <algorithm>
#include <cstdint>

#include "guest/limiter/compute/bracket.hpp"
#include "guest/limiter/compute/estimates.hpp"

namespace headgate::limiter {

inline constexpr std::int64_t kVisibleNs = 2'000;  // an event that has fired is seen so soon
inline constexpr std::int64_t kPromptNs = 5'000;   // a start event that fired so soon found its stream and the GPU idle
inline constexpr std::int64_t kDoubtParts = 200;   // a doubt of less than such a part of a length is none
inline constexpr std::int64_t kShortParts = 8;     // beside a kernel shorter than so many call times a late start shows
inline constexpr std::int64_t kBlockedParts = 8;   // of the GPU's wait: a call that ends so soon after it waited too
inline constexpr std::int64_t kStoppedNs = 5'000'000;  // hardly a thread launches for so long into one bracket

// The start event had waited for other work while a call that usually blocks was under way: the first of what the call
// sends was there when the GPU came to it, long before the call returned. Or what may be wrong by that is next to
// nothing.
inline bool was_sent_before(const Estimates& estimates, const Bracket& bracket, std::int64_t start_event_ns) {
  if (start_event_ns - bracket.opened_ns < kPromptNs || bracket.function_count != 1) return false;
  const std::int64_t after_ns = bracket.first_ns - start_event_ns;
  return after_ns < bracket.expected_ns / kDoubtParts ||
         after_ns < (start_event_ns - bracket.opened_ns) / kBlockedParts ||
         estimates.call_ns(bracket.functions[0]) > kStoppedNs;
}

// Returns by how much the bracket's kernel may have come after its start event; 0 if that is little of its length. The
// event fired when the stream's last work ended, which may have been before the kernel was sent. In turns only: without
// a daemon no replay looks for such pauses.
inline std::int64_t may_be_late_ns(const Estimates& estimates, const ContextMeter& context, const Bracket& bracket,
                                   std::int64_t start_event_ns) {
  if (!has_turns(context) || bracket.launches != 1 || bracket.function_count != 1 ||
      was_sent_before(estimates, bracket, start_event_ns))
    return 0;
  const std::int64_t late_ns =
      std::min(bracket.first_ns - bracket.opened_ns, bracket.first_ns + kVisibleNs - start_event_ns);
  return late_ns > bracket.expected_ns / kShortParts ? late_ns : 0;
}

// Returns whether the process was stopped between its first and last launch, so that the GPU's idle time is unknown. A
// single call that usually takes this long blocks instead.
inline bool stood_still(const Estimates& estimates, const Bracket& bracket, std::int64_t start_event_ns) {
  const std::int64_t launching = launching_ns(bracket, start_event_ns);
  const std::int64_t call_ns = bracket.launches == 1 ? estimates.call_ns(bracket.functions[0]) : 0;
  return launching > kStoppedNs && launching > 4 * bracket.expected_ns && launching > 2 * call_ns;
}

}  // namespace headgate::limiter
