// What a gang has been charged, and what of it is only assumed yet.
//
// Charged: the GPU time that its shares held, and the time in its turns that nobody used while somebody else was kept out.
// Both are known some milliseconds late. Until then a turn is taken to have been used to the full (`assumed_ns`), so that
// nobody gets two turns because the first is not on the books yet, and a kernel that does not end is charged as it runs.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "schedule/terms.hpp"

namespace headgate::schedule {

inline constexpr std::int64_t kLeastLingerNs = 100'000, kMostLingerNs = 1'000'000;
inline constexpr std::int64_t kMostReportedNs = 100'000'000'000;  // of anything at a time
// Nobody holds a GPU for longer than time passes; so much of it may be reported late.
inline constexpr std::int64_t kMostLateNs = 10'000'000'000;
inline constexpr std::int64_t kMostHeldNs = 1ll << 60;   // in all: 36 years
inline constexpr std::int64_t kOverdueReportNs = 1'000;  // what is reported of work whose estimate is used up
inline constexpr std::int64_t kGapWindowNs = 10'000'000;
inline constexpr std::int64_t kSteadyNs = 100'000'000;
inline constexpr std::uint32_t kRanks = 3;  // classes
inline constexpr std::uint32_t kMostProcesses = 1'024;

// What a liar reports, brought to where no sum of it overflows.
Use sane(const Use& use);

// A share on one GPU.
struct Place {
  Terms terms;
  Use use;
  std::int64_t active_ns = -kGapWindowNs;  // when it was last seen to work or to want
  std::int64_t observed_ns = 0;            // 0: never
  std::int64_t late_ns = kMostLateNs;      // how much more than the time that passes it may report
  std::int64_t charged_ns = 0;             // of late, and so can come back
  std::int64_t overdue_since_ns = 0;
  std::int64_t expected_ns = 0;  // the most that was in flight since it last had nothing to do or was overdue
  std::int64_t shut_ns = 0;      // since when the gate is
  Gate gate = Gate::tell;
  std::int64_t portion_ns = 0;
  // How long its work is interrupted by its host; 0 where that is less than 2 % of the time, or where each pause is long
  // enough to end a turn.
  std::int64_t gap_ns = 0;
  std::int64_t paused_ns = 0;              // when it was last seen to pause, by itself or for its ceiling
  std::int64_t throttled_ns = -kSteadyNs;  // when its ceiling was last seen to hold it
  std::int64_t gap_since_ns = 0;
  std::int64_t gap_dry_ns = 0;
  std::uint64_t gap_spells = 0;

  // A pause of the host's does not end a turn at once.
  std::int64_t linger_ns() const;
  // How long after its work's end one looks whether it goes on.
  std::int64_t patience_ns(std::int64_t now_ns) const;
  // Work is in flight that should have ended by the estimates.
  bool overdue() const { return use.in_flight_ns > 0 && use.in_flight_ns <= kOverdueReportNs; }
  // Its own ceiling keeps it from sending more.
  bool throttled() const { return use.ceiling_ns > kLeastLingerNs; }
  bool engaged(std::int64_t now_ns) const;
  // Its host has had work ready all the time.
  bool steady(std::int64_t now_ns) const { return now_ns - paused_ns > kSteadyNs; }
  void learn_gap(std::int64_t now_ns);
  // Of what it says that it held since it was last observed, what can be true.
  std::int64_t credible_ns(std::int64_t held_ns, std::int64_t now_ns);
};

struct Gang;

struct Share {
  Gang* gang = nullptr;  // null: the id is free
  std::vector<Place> places;
};

// A gang on one GPU.
struct Stake {
  static constexpr std::uint32_t kTurns = 64;  // that are not settled; with more, the oldest is taken as used
  std::uint32_t gpu = 0;
  std::int64_t weight = 0;         // of its shares together
  std::int64_t guarantee_ppm = 0;  // of its shares together
  std::int64_t held_ns = 0;        // by its shares so far
  std::int64_t budget_ns = 0;  // what is left of the guarantee; negative: it had more, and more than its weight's part
  std::array<Turn, kTurns> turns{};
  std::uint32_t first = 0, last = 0;  // turns[first % kTurns] is the oldest
  Turn open;                          // share == kNoShare: none
  std::int64_t engaged_ns = -1'000'000'000;

  std::int64_t assumed_ns(std::int64_t now_ns) const;
};

struct Gang {
  std::string name;
  std::int64_t virtual_ns = 0;  // GPU time charged, by weight: ns at weight 1
  std::int64_t rest_ns = 0;     // charged, and less than 1 ns of that
  std::vector<Stake> stakes;
  std::vector<ShareId> members;
  std::uint32_t wanted = 0;  // GPUs, as bits: all that it works on, while it works on any
  std::uint32_t wanted_before = 0;
  std::uint32_t holds = 0;
  std::int64_t lease_end_ns = 0;
  std::int64_t drain_end_ns = 0;  // 0: its turn is not ending
  std::int64_t assumed_ns = 0;    // of its turns, as virtual time
  bool guaranteed = false;
  bool has_gaps = false;
  bool wakes = false;      // wants again, now
  bool slept = false;      // for longer than a pause
  std::uint32_t rank = 0;  // class, where it counts

  Stake* stake(std::uint32_t gpu);
  const Stake* stake(std::uint32_t gpu) const { return const_cast<Gang*>(this)->stake(gpu); }
  // GPU time on one of its GPUs costs so much less virtual time: the weight, times the number of GPUs that it works on.
  std::int64_t divisor(const Stake& stake) const;
  // The virtual time that gpu_ns cost.
  std::int64_t price_ns(const Stake& stake, std::int64_t gpu_ns) const;
  void charge(Stake& stake, std::int64_t gpu_ns);
  void end_turn(Stake& stake, std::int64_t now_ns);
};

}  // namespace headgate::schedule
