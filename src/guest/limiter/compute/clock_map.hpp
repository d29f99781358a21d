// Converts GPU event time to host time for one context. No call reads both clocks at once, but an event never fires
// before it was submitted, so each (submit - event time) is a lower bound of the offset. Other work delays most starts,
// so a single bound says little. Offset and drift are the lowest line above the best bounds of the last seconds. It is
// the same in every process, so intervals of two processes are adjacent where they were on the GPU.
//
// On a GPU that is never idle it takes time until some starts are not delayed. Until then the line lies between these
// bounds and upper bounds, which need no idle time: an event fired before it is seen done.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace headgate::limiter {

class ClockMap {
 public:
  std::int64_t host_ns(std::int64_t gpu_ns) const { return gpu_ns + offset(gpu_ns); }

  // An event that fired at gpu_ns was submitted at host_ns: a lower bound of the offset.
  void observe(std::int64_t gpu_ns, std::int64_t host_ns) {
    if (!started_) {
      started_ = true;
      offset_ns_ = host_ns - gpu_ns;
      reference_ns_ = gpu_ns;
      begin_window(gpu_ns);
    }
    low_.add({host_ns - gpu_ns + spread(gpu_ns), gpu_ns});
    guess(gpu_ns);
    const std::int64_t late = host_ns - gpu_ns - offset(gpu_ns);
    if (late > best_late_ns_) {
      best_late_ns_ = late;
      best_ = {gpu_ns, host_ns - gpu_ns};
    }
    if (late > 0) {
      offset_ns_ += late;
      best_late_ns_ = 0;
    }
    ++seen_;
    const bool young = points_ < kYoung && gpu_ns - window_ns_ >= kYoungNs;
    if (seen_ >= kWindowEvents && (young || gpu_ns - window_ns_ >= kWindowNs)) end_window(gpu_ns);
  }

  // An event that fired at gpu_ns was seen done at host_ns: an upper bound of the offset.
  void bound(std::int64_t gpu_ns, std::int64_t host_ns) {
    high_.add({gpu_ns - host_ns + spread(gpu_ns), gpu_ns});
    guess(gpu_ns);
    const std::int64_t early = host_ns - gpu_ns - offset(gpu_ns);
    if (!started_ || early >= 0) return;
    offset_ns_ += early;
    points_ = 0;
    begin_window(gpu_ns);
  }

 private:
  static constexpr std::int64_t kWindowNs = 128'000'000, kYoungNs = 16'000'000;
  static constexpr std::int64_t kWindowEvents = 8;
  static constexpr std::uint32_t kPoints = 32, kYoung = 8;
  static constexpr std::int64_t kFarNs = kWindowNs / 10'000;  // drift of 100 ppm; no crystal is worse
  static constexpr double kMaxDrift = 1e-4;
  static constexpr std::int64_t kSubmitNs =
      1'500;  // about the delay from submission to firing, by which lower bounds are too low
  static constexpr std::int64_t kSureNs = 500, kNearNs = 3'000;
  static constexpr std::int64_t kNoneSeen = -1'000'000'000'000'000;

  struct Point {
    std::int64_t gpu_ns = 0, offset_ns = 0;
  };

  // The three tightest bounds of one side, tightest first. Each is extrapolated to GPU time 0 as if the clocks had
  // drifted at the maximum rate: so bounds of all times compare, and old ones are replaced.
  struct Bounds {
    struct Bound {
      std::int64_t ns = 0, gpu_ns = 0;
    };
    static constexpr std::uint32_t kKept = 3;
    Bound best[kKept];
    std::uint32_t kept = 0;
    void add(Bound bound) {
      for (std::uint32_t i = 0; i < kept; ++i)
        if (bound.ns > best[i].ns) std::swap(bound, best[i]);
      if (kept < kKept) best[kept++] = bound;
    }
    // If three are far apart in time, drift may exceed the delays.
    bool known(std::int64_t gpu_ns) const { return kept == kKept && gpu_ns - best[2].gpu_ns < kWindowNs; }
    // Random delays are about as far apart as the shortest of them is long.
    std::int64_t gap() const { return kept == kKept ? (best[0].ns - best[2].ns) / 2 : kWindowNs; }
  };
  static std::int64_t spread(std::int64_t gpu_ns) {
    return static_cast<std::int64_t>(kMaxDrift * static_cast<double>(gpu_ns));
  }

  // Without a line: uses the lower bound, as for the line, unless the upper ones are tighter. Streams are settled one
  // after another, so an event may be older than the bounds: back from them, the drift between is no bound.
  void guess(std::int64_t gpu_ns) {
    if (points_ >= 2) return;
    for (std::uint32_t i = 0; i < Bounds::kKept; ++i)
      gpu_ns = std::max({gpu_ns, low_.best[i].gpu_ns, high_.best[i].gpu_ns});
    if (!low_.known(gpu_ns) || !high_.known(gpu_ns)) return;
    const std::int64_t low = low_.best[0].ns - spread(gpu_ns), high = spread(gpu_ns) - high_.best[0].ns;
    if (low > high) {  // a clock was set
      low_ = high_ = {};
      return;
    }
    drift_ = 0;
    reference_ns_ = gpu_ns;
    offset_ns_ = low_.gap() <= high_.gap() ? low : std::max((low + high) / 2, high - high_.gap() - kSubmitNs);
  }

  std::int64_t offset(std::int64_t gpu_ns) const {
    return offset_ns_ + static_cast<std::int64_t>(drift_ * static_cast<double>(gpu_ns - reference_ns_));
  }
  void begin_window(std::int64_t gpu_ns) {
    window_ns_ = gpu_ns;
    best_late_ns_ = kNoneSeen;
    seen_ = 0;
  }
  void end_window(std::int64_t gpu_ns) {
    // If other work kept the GPU busy, every start in this window was delayed, which says nothing about the clocks.
    // While the line is young, three starts that agree count as not delayed.
    const bool prompt = points_ < kYoung ? low_.gap() < kSureNs && best_late_ns_ > -kNearNs : best_late_ns_ > -kFarNs;
    if (prompt) {
      if (points_ == kPoints) {
        for (std::uint32_t i = 1; i < kPoints; ++i) known_[i - 1] = known_[i];
        --points_;
      }
      known_[points_++] = best_;
      fit();
    }
    begin_window(gpu_ns);
  }
  // Returns how far above `middle` a line of this drift must pass so that no bound is above it.
  double height(double drift, const Point& middle) const {
    double most = -1e18;
    for (std::uint32_t i = 0; i < points_; ++i) {
      const double at = static_cast<double>(known_[i].gpu_ns - middle.gpu_ns);
      most = std::max(most, static_cast<double>(known_[i].offset_ns - middle.offset_ns) - drift * at);
    }
    return most;
  }
  void fit() {
    if (points_ < 2) return;
    Point middle = known_[0];
    double sum = 0;
    for (std::uint32_t i = 0; i < points_; ++i) sum += static_cast<double>(known_[i].gpu_ns - known_[0].gpu_ns);
    middle.gpu_ns += static_cast<std::int64_t>(sum / points_);
    double low = -kMaxDrift, high = kMaxDrift;  // the height is convex in the drift
    for (int step = 0; step < 40; ++step) {
      const double third = (high - low) / 3;
      if (height(low + third, middle) <= height(high - third, middle)) high -= third;
      else low += third;
    }
    drift_ = (low + high) / 2;
    reference_ns_ = middle.gpu_ns;
    offset_ns_ = middle.offset_ns + static_cast<std::int64_t>(height(drift_, middle));
  }

  bool started_ = false;
  Bounds low_, high_;
  double drift_ = 0;  // host ns per GPU ns, minus one
  std::int64_t offset_ns_ = 0, reference_ns_ = 0;
  std::int64_t window_ns_ = 0, best_late_ns_ = 0, seen_ = 0;
  Point best_;
  std::uint32_t points_ = 0;
  std::array<Point, kPoints> known_{};  // the best bound of each window
};

}  // namespace headgate::limiter
