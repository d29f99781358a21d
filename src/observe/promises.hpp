// Checks whether shares had what they were promised of GPUs: fills the figures of each snapshot, and reports a promise
// that was not kept, with the cause. Pure: takes snapshots and the arbiter's counts, returns events.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "snapshot/snapshot.hpp"

namespace headgate::observe {

// Totals of a share on one GPU at one time, from which PromiseWindow computes what it was promised, wanted and had.
// Times are ns of one clock; totals may start from any value.
struct PromiseSample {
  std::uint64_t taken_ns = 0;
  std::uint64_t held_ns = 0;        // GPU time held, by its account; goes back if time turns out to be another share's
  std::uint64_t neighbours_ns = 0;  // others' work that the account first took for the share's
  std::int64_t wanted_ns = 0;       // as the arbiter counts it
  double used_outside_ratio = 0;    // of the time since the sample before, by work that no account measures
  std::uint64_t launches = 0;
  double promised_ratio = 0;  // 0..1 of the GPU
  double sm_part = 1;         // of the SMs, what was held of them: less under MPS
  bool turns = true;          // the arbiter gives turns there; else it does not see which shares want the GPU
};

// Not thread-safe.
class PromiseWindow {
 public:
  static constexpr std::uint64_t kSpanNs = 10'000'000'000;
  static constexpr std::uint64_t kApartNs = 900'000'000;  // samples that come sooner are not taken
  static constexpr std::uint64_t kLateNs = 3'000'000'000;

  // Ratios are 0..1 of the GPU. short = max(0, owed - had); owed is promise times wanted if the promise did not change.
  struct Figures {
    double promised_ratio = 0, wanted_ratio = 0, owed_ratio = 0, had_ratio = 0, short_ratio = 0;
    std::uint64_t span_ns = 0;    // time they cover; 0: nothing is known yet
    std::uint64_t launch_ns = 0;  // mean GPU time of a launch; 0: there was none
    bool late = false;            // samples were more than kLateNs apart: the daemon did not run
  };

  // Returns the time since the sample before; 0 if this sample came too soon, or is the first.
  std::uint64_t add(const PromiseSample& sample);
  // Returns the figures of the last `span_ns`, kSpanNs at most.
  [[nodiscard]] Figures figures(std::uint64_t span_ns = kSpanNs) const;
  // Returns GPU time that was short since the beginning: figures().short_ratio, summed over time. Never goes back.
  [[nodiscard]] std::uint64_t short_ns() const { return static_cast<std::uint64_t>(short_ns_); }

 private:
  // Totals since the first sample.
  struct Point {
    std::uint64_t taken_ns = 0, launches = 0;
    double held_ns = 0, had_ns = 0, wanted_ns = 0, owed_ns = 0;
    bool late = false;  // since the point before
  };
  // Enough for a span of samples as close together as they may be.
  static constexpr std::size_t kMaxPoints = kSpanNs / kApartNs + 3;

  [[nodiscard]] const Point& point(std::size_t age) const { return points_[(newest_ + kMaxPoints - age) % kMaxPoints]; }
  [[nodiscard]] const Point& oldest(std::uint64_t span_ns) const;
  void push(const Point& point);

  std::array<Point, kMaxPoints> points_{};
  std::size_t newest_ = 0, count_ = 0;
  PromiseSample last_;
  double wanted_rate_ = 0;  // of the last step
  double short_ns_ = 0;
};

// A promise is not kept if more than this of the GPU is missing over a whole window.
inline constexpr double kShortRatio = 0.02;

// Not thread-safe.
class Promises {
 public:
  // Returns how long the share has wanted the GPU with that UUID, in ns, as the arbiter counts it.
  using Wanted = std::function<std::int64_t(const std::string& share, const std::string& uuid)>;

  // Fills had_ratio, wanted_ratio, short_ratio, short_ns and short_cause of all shares. `now` has overcommit of the
  // shares, and policies in force. Returns an event share.short for each share and GPU that lacked more than
  // kShortRatio of its promise over kSpanNs, and over the second half of them too: programs that start have less at
  // first. The next one for them comes with another cause, or when the promise has been kept for kSpanNs since.
  [[nodiscard]] std::vector<snapshot::Event> look(snapshot::Snapshot& now, const Wanted& wanted);
  // Fills the same figures, from the last look.
  void fill(snapshot::Snapshot& now) const;

 private:
  struct Track {
    std::uint64_t generation = 0;  // of the share's pages
    PromiseWindow window;
    bool seen = false;
    std::bitset<16> told;       // causes that were told since the promise was kept last
    std::uint64_t kept_ns = 0;  // for how long the promise has been kept since it was told that it was not
    std::string cause;
  };
  using Key = std::pair<std::string, std::string>;  // share, UUID

  void sample(snapshot::Snapshot& now, const Wanted& wanted, std::map<Key, std::uint64_t>& passed);

  std::map<Key, Track> tracks_;
};

}  // namespace headgate::observe
