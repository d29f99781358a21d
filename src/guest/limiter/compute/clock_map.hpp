// GPU event time -> host time, for one context. No call reads both clocks at once, but an event never fires before it
// was submitted: the largest (submit - event time) seen lately is the closest lower bound of the offset. A start event
// on an idle stream fires within a few microseconds, so the bound is tight and its error the same in every process.
#pragma once

#include <algorithm>
#include <cstdint>

namespace headgate::limiter {

class ClockMap {
 public:
  std::int64_t host_ns(std::int64_t gpu_ns) const { return gpu_ns + offset(gpu_ns); }

  // An event that fired at gpu_ns was submitted at host_ns.
  void observe(std::int64_t gpu_ns, std::int64_t host_ns) {
    if (!started_) {
      started_ = true;
      offset_ns_ = host_ns - gpu_ns;
      reference_ns_ = window_ns_ = gpu_ns;
      return;
    }
    const std::int64_t late = host_ns - gpu_ns - offset(gpu_ns);
    if (late > 0) {
      offset_ns_ += late;
      moved_ns_ += late;
      best_ns_ = 0;
    } else {
      best_ns_ = std::max(best_ns_, late);
    }
    if (++seen_ >= kWindowEvents && gpu_ns - window_ns_ >= kWindowNs) end_window(gpu_ns);
  }

  // An event that fired at gpu_ns was seen done at host_ns: the offset cannot be larger.
  void bound(std::int64_t gpu_ns, std::int64_t host_ns) {
    const std::int64_t early = host_ns - gpu_ns - offset(gpu_ns);
    if (!started_ || early >= 0) return;
    offset_ns_ += early;
    moved_ns_ = 0;
    window_ns_ = gpu_ns;
  }

 private:
  static constexpr std::int64_t kWindowNs = 128'000'000;
  static constexpr std::int64_t kWindowEvents = 8;
  static constexpr std::int64_t kMostDriftNs = kWindowNs / 10'000;  // 100 parts in a million
  static constexpr std::int64_t kNoneSeen = -1'000'000'000;

  std::int64_t offset(std::int64_t gpu_ns) const {
    return offset_ns_ + static_cast<std::int64_t>(drift_ * static_cast<double>(gpu_ns - reference_ns_));
  }
  void end_window(std::int64_t gpu_ns) {
    offset_ns_ = offset(gpu_ns);
    reference_ns_ = gpu_ns;
    // A GPU that others kept busy delayed every start of this window: that says nothing about the clocks.
    if (best_ns_ > -kMostDriftNs) {
      offset_ns_ += best_ns_;
      moved_ns_ += best_ns_;
    } else if (moved_ns_ == 0) {
      window_ns_ = gpu_ns;
      best_ns_ = kNoneSeen;
      seen_ = 0;
      return;
    }
    const double slope = static_cast<double>(moved_ns_) / static_cast<double>(gpu_ns - window_ns_);
    drift_ = std::clamp(drift_ + slope / 4, -1e-4, 1e-4);  // no crystal is further off
    reference_ns_ = window_ns_ = gpu_ns;
    best_ns_ = kNoneSeen;
    moved_ns_ = seen_ = 0;
  }

  bool started_ = false;
  double drift_ = 0;  // host ns a GPU ns, less one
  std::int64_t offset_ns_ = 0, reference_ns_ = 0;
  std::int64_t window_ns_ = 0, best_ns_ = kNoneSeen, moved_ns_ = 0, seen_ = 0;
};

}  // namespace headgate::limiter
