// GPU event time -> host time, for one context. No call reads both clocks at once, but an event never fires before it
// was submitted: each (submit - event time) is a lower bound of the offset. Other work on the GPU delays most starts,
// so one bound says little; the lowest line above the best bounds of the last seconds is the offset and its drift. It
// is the same in every process, whatever kept the GPU: intervals of two processes abut where they did on the GPU.
//
// On a GPU that never rests it takes a while until some starts were not delayed. Until then the line lies between those
// bounds and the ones from above, which need no rest: an event has fired before it is seen done.
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

  // An event that fired at gpu_ns was submitted at host_ns.
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

  // An event that fired at gpu_ns was seen done at host_ns: the offset cannot be larger.
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
  static constexpr std::int64_t kFarNs =
      kWindowNs / 10'000;  // 100 parts in a million of drift, no crystal is further off
  static constexpr double kMaxDrift = 1e-4;
  static constexpr std::int64_t kSubmitNs =
      1'500;  // the lower bounds lie so much too low, about: no event fires at once
  static constexpr std::int64_t kSureNs = 500, kNearNs = 3'000;
  static constexpr std::int64_t kNoneSeen = -1'000'000'000'000'000;

  struct Point {
    std::int64_t gpu_ns = 0, offset_ns = 0;
  };

  // The three tightest bounds of one side, the tightest first. Each is kept as it would be at GPU time 0 had the clocks
  // run towards it as fast as they can ever since: bounds of all times compare, and old ones give way.
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
    // Of three that are far apart in time the clocks may have made more than the delays.
    bool known(std::int64_t gpu_ns) const { return kept == kKept && gpu_ns - best[2].gpu_ns < kWindowNs; }
    // Delays that come as they like lie as far from each other as the least of them is long.
    std::int64_t gap() const { return kept == kKept ? (best[0].ns - best[2].ns) / 2 : kWindowNs; }
  };
  static std::int64_t spread(std::int64_t gpu_ns) {
    return static_cast<std::int64_t>(kMaxDrift * static_cast<double>(gpu_ns));
  }

  // Without a line yet: the lower bound, as for the line, unless the upper ones say more.
  void guess(std::int64_t gpu_ns) {
    if (points_ >= 2 || !low_.known(gpu_ns) || !high_.known(gpu_ns)) return;
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
    // A GPU that others kept busy delayed every start of this window: that says nothing about the clocks. While the
    // line is young, three starts that agree are such as were not delayed.
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
  // How high over `middle` a line of this drift must pass to have no bound above it.
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
  double drift_ = 0;  // host ns a GPU ns, less one
  std::int64_t offset_ns_ = 0, reference_ns_ = 0;
  std::int64_t window_ns_ = 0, best_late_ns_ = 0, seen_ = 0;
  Point best_;
  std::uint32_t points_ = 0;
  std::array<Point, kPoints> known_{};  // the best bound of each window
};

}  // namespace headgate::limiter
