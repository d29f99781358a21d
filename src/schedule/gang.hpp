// What a gang has been charged on each GPU, and how much of it is still assumed.
//
// Charged: the GPU time that its shares held, and idle time in its turns while other shares were kept out. Both are
// known some milliseconds late. Until then a turn counts as fully used (`assumed_ns`): no gang gets two turns because
// the first is not recorded, and an endless kernel is charged as it runs.
//
// Reservation and weight are the tags of mClock (Gulati, Merchant, Varman: OSDI 2010), as buckets: a turn that starts
// with a positive budget of the promise is paid from that budget, any other by virtual time. So weights divide what
// promises leave, and neither is charged for the other. mClock's third tag, the limit, is the limiters' pacer.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedule/terms.hpp"

namespace headgate::schedule {

// Ranks wait for each other if their work has held the GPU for this and two rounds of kernels.
inline constexpr std::int64_t kRankWaitsNs = 4'000'000;
inline constexpr std::int64_t kSliceNs = 2'000'000;         // of the GPU's time, for each context at work in turn
inline constexpr std::int64_t kTurnSettlesNs = 10'000'000;  // by then it is known which shares used a turn
inline constexpr std::int64_t kMinLingerNs = 100'000, kMaxLingerNs = 1'000'000;
inline constexpr std::int64_t kMaxReportedNs = 100'000'000'000;  // per reported value
// A share cannot hold a GPU for longer than time passes; up to this much may be reported late.
inline constexpr std::int64_t kMaxLateNs = 10'000'000'000;
inline constexpr std::int64_t kMaxHeldNs = 1ll << 60;    // in total: 36 years
inline constexpr std::int64_t kOverdueReportNs = 1'000;  // reported for work that exceeds its estimate
inline constexpr std::int64_t kCrumbNs = 350'000;        // of host time at the ceiling; the pacer's batches are shorter
inline constexpr std::int64_t kRestedNs = 1'000'000;     // of GPU time; less at a low ceiling
inline constexpr std::int64_t kRestedAmongBusyNs = 3'000'000;
inline constexpr std::int64_t kLongKernelNs =
    8'000'000;  // longer ones start no earlier than in a fluid (fluid_pace.cpp)
inline constexpr std::int64_t kMaxRestNs = 50'000'000;
inline constexpr std::int64_t kGapWindowNs = 10'000'000;
inline constexpr std::int64_t kSteadyNs = 100'000'000;
inline constexpr std::uint32_t kRanks = 3;                    // classes
inline constexpr std::int64_t kBudgetWindowNs = 100'000'000;  // how much of an unkept promise is made up for
inline constexpr std::int64_t kMinDueNs = 1'250'000;          // half a turn
inline constexpr std::int64_t kIdleBudgetNs = 2'000'000;      // and how much once it is not wanted
// How long ranks are held together after they were seen to wait for each other; longer each time that this happens
// again soon.
inline constexpr std::int64_t kTogetherForNs = 4'000'000'000, kLongestTogetherNs = 64'000'000'000;
inline constexpr std::int32_t kWaitsOfRanks = 8;
inline constexpr std::uint32_t kMaxProcesses = 1'024;

inline constexpr std::int64_t kShortestLeaseNs = 2'500'000;  // of a turn
constexpr bool is_short_kernel(std::int64_t kernel_ns) { return kernel_ns <= kShortestLeaseNs / 4; }

// Clamps reported values so that no sum of them overflows.
Use sane(const Use& use);

// Returns the element whose member is `value`; null: none.
template <typename Each, typename Value>
Each* find_by(std::vector<Each>& all, Value value, Value Each::* member) {
  const auto found = std::ranges::find(all, value, member);
  return found == all.end() ? nullptr : &*found;
}

// A share on one GPU.
struct ShareOnGpu {
  ShareId share = kNoShare;
  Terms terms;
  Use use;
  std::int64_t active_ns = -kGapWindowNs;  // when it was last seen to work or to want the GPU
  std::int64_t observed_ns = 0;            // 0: never
  std::int64_t late_ns = kMaxLateNs;       // how much more than the elapsed time it may report
  std::int64_t charged_ns = 0;             // recently, so it can be given back
  std::int64_t paid_ns = 0;                // of that, beside other shares
  std::int64_t overdue_since_ns = 0;
  std::int64_t oldest_ns = 0;             // when the oldest of its work in flight was sent
  std::int64_t held_since_oldest_ns = 0;  // by the share, since that was first seen to be the oldest
  std::int64_t expected_ns = 0;           // the most in flight since it was last idle or overdue
  std::int64_t shut_ns = 0;               // since when the gate is shut
  bool rests = false;                     // it rests at its ceiling
  bool is_among_busy = false;             // all that seek the GPU have short kernels ready, or wait with longer ones
  bool rests_are_no_pauses = false;       // the same, also while the longer ones run
  bool early = false;                     // its next kernel is long, and would start too early
  std::int64_t wanted_ns = 0;             // see Arbiter::wanted_ns
  // For that: whether it wanted the GPU at the last look, time not counted since, and its own pauses that were counted.
  bool sought = false;
  std::int64_t unsought_ns = kMaxHeldNs, pauses_ns = 0, told_dry_ns = 0, worked_ns = 0;
  std::uint32_t told_processes = 0;
  Gate gate = Gate::open_notify;
  std::int64_t batch_ns = 0;
  // Mean length of the program's pauses between launches; 0 if they are less than 2 % of the time, or if each is long
  // enough to end a turn.
  std::int64_t gap_ns = 0;
  bool long_gaps = false;                  // its last pauses were each long enough
  std::int64_t paused_ns = 0;              // when it was last seen to pause, not for its ceiling
  std::int64_t dry_seen_ns = 0;            // when its processes last told of pauses
  std::int64_t throttled_ns = -kSteadyNs;  // when its ceiling was last seen to hold it
  std::int64_t gap_since_ns = 0;
  std::int64_t gap_dry_ns = 0;
  std::uint64_t gap_spells = 0;

  // Returns how long a pause may last without ending a turn.
  std::int64_t linger_ns() const;
  // Returns how long after the end of its work to check whether it continues.
  std::int64_t patience_ns(std::int64_t now_ns) const;
  // Returns whether work is in flight that should have ended by the estimates.
  bool overdue() const { return use.in_flight_ns > 0 && use.in_flight_ns <= kOverdueReportNs; }
  // Returns whether its own ceiling keeps it from sending more.
  bool throttled() const { return use.ceiling_ns > kMinLingerNs; }
  // At its ceiling a share can send only little at a time. It rests until its account allows what is worth a turn.
  std::int64_t worth_a_turn_ns() const {
    const std::int64_t rested_ns = is_among_busy ? kRestedAmongBusyNs : kRestedNs;
    return std::clamp(rested_ns * 1'000'000 / use.ceiling_ppm, rested_ns, kMaxRestNs);
  }
  // Returns how long that takes at least.
  std::int64_t rested_in_ns() const {
    return use.ceiling_ns + (use.credit_ns == kNoCeiling ? 0 : worth_a_turn_ns() - use.credit_ns);
  }
  void look_at_ceiling() {
    if (throttled() || use.credit_ns < kCrumbNs) rests = true;
    else if (use.credit_ns >= worth_a_turn_ns()) rests = false;
  }
  bool engaged(std::int64_t now_ns) const;
  // Returns whether its host has had work ready all the time. Among busy shares it continues for allowed_ns().
  bool steady(std::int64_t now_ns) const {
    return now_ns - paused_ns > kSteadyNs && (is_among_busy || now_ns - throttled_ns > kSteadyNs);
  }
  // Returns whether it is steady, or only its own ceiling holds it.
  bool always_busy(std::int64_t now_ns) const { return steady(now_ns) || now_ns - throttled_ns < kSteadyNs; }
  // Returns for how long its ceiling lets it use the GPU, if its host does not pause.
  std::int64_t allowed_ns() const;
  // Returns in how long its oldest work will have held the GPU for longer than its kernels and its processes' slices
  // explain, at the earliest; 0: it has.
  std::int64_t outlasts_in_ns() const;
  bool outlasts() const { return use.kernel_ns != 0 && outlasts_in_ns() == 0; }
  void learn_gap(std::int64_t now_ns);
  // Adds what it wanted of the time since the last look. seeks: it wants the GPU now.
  void count_wanted(std::int64_t now_ns, std::int64_t passed_ns, bool seeks);
  // Returns the credible part of the time that it reports as held since the last observation.
  std::int64_t credible_ns(std::int64_t held_ns, std::int64_t now_ns);
};

struct Gang;

// A gang on one GPU.
struct GangOnGpu {
  static constexpr std::uint32_t kTurns = 64;  // not settled; with more, the oldest counts as used
  Gang* gang = nullptr;
  std::uint32_t gpu = 0;
  std::vector<ShareOnGpu> places;              // of its shares that have the GPU
  std::int64_t weight = 0, guarantee_ppm = 0;  // of these together
  std::int64_t held_ns = 0;                    // by its shares so far
  std::int64_t budget_ns =
      0;  // what is due of the promise; negative: it had more, in turns that took more than was due at their start
  std::int64_t virtual_ns = 0;  // GPU time charged by weight: ns at weight 1
  std::int64_t rest_ns = 0;     // charged, but less than 1 ns of that
  bool reserved = false;        // its last turn is paid from the budget
  bool wants = false, wanted_before = false;
  bool has_gaps = false;
  bool wakes = false;                         // wants the GPU again, now
  bool slept = false;                         // for longer than a pause
  bool held_back = false;                     // wants more, but its own ceiling stops it
  bool rested = false;                        // was held back until now
  std::optional<std::int64_t> clock_left_ns;  // the clock when it last stopped wanting, in virtual time
  // Compared with the fluid, if some kernels are long (fluid_pace.cpp).
  std::int64_t ahead_ns = 0;         // what it had beyond the fluid; negative: less
  double part = 0;                   // its part of the GPU in the fluid, 0..1
  bool full = false;                 // it has no more there than its ceiling
  std::int64_t long_ns = 0;          // its longest kernels
  std::int64_t out_of_reach_ns = 0;  // one for each process, since no gate takes back what has begun
  std::int64_t ceiling_ppm = 0;
  std::int64_t sought_ns = -1'000'000'000;  // when it was last seen with others that seek the GPU
  std::int64_t engaged_ns = -1'000'000'000;
  std::int64_t lease_from_ns = 0, lease_end_ns = 0;
  std::int64_t had_from_ns = 0;  // since when it holds the GPU, in as many turns as that are
  std::int64_t assumed_ns = 0;   // for its turns, not yet recorded
  std::array<Turn, kTurns> turns{};
  std::uint32_t first = 0, last = 0;  // modulo kTurns; equal: there is none
  Turn open;                          // share == kNoShare: none

  std::uint32_t bit() const { return 1u << gpu; }
  bool seeks() const { return wants || held_back; }
  ShareOnGpu* place(ShareId share) { return find_by(places, share, &ShareOnGpu::share); }
  // Call after a change of any share's terms.
  void add_up_terms();
  bool is_always_busy(std::int64_t now_ns) const {
    return std::ranges::all_of(places, [now_ns](const ShareOnGpu& each) { return each.always_busy(now_ns); });
  }
  // Returns whether its kernels are short and none of its hosts pauses: only its own ceiling may hold it.
  bool has_short_ready(std::int64_t now_ns) const {
    return std::ranges::all_of(places, [now_ns](const ShareOnGpu& each) {
      return each.use.kernel_ns > 0 && is_short_kernel(each.use.kernel_ns) && each.always_busy(now_ns) &&
             now_ns - each.dry_seen_ns > kSteadyNs;
    });
  }
  // Returns whether all its kernels are longer.
  bool has_longer() const {
    return std::ranges::none_of(places, [](const ShareOnGpu& each) { return is_short_kernel(each.use.kernel_ns); });
  }
  // Returns whether its last work is about to end, and a long pause follows.
  bool pauses_soon() const {
    return std::ranges::all_of(places, [](const ShareOnGpu& each) {
      return each.long_gaps && each.expected_ns > kMinLingerNs && each.use.in_flight_ns > 0 &&
             each.use.in_flight_ns <= kMinLingerNs;
    });
  }
  // Return the longest of its shares' figures.
  std::int64_t in_flight_ns() const;
  std::int64_t kernel_ns() const;

  // Current state, including what is assumed.
  std::int64_t due_ns() const { return budget_ns - (reserved ? assumed_ns : 0); }
  std::int64_t stands_ns() const { return virtual_ns + (reserved ? 0 : price_ns(assumed_ns)); }
  // Returns whether enough of the promise is due that a turn is worth the handover.
  bool is_promised() const {
    return guarantee_ppm > 0 && due_ns() >= std::min(kMinDueNs, kBudgetWindowNs * guarantee_ppm / 2'000'000);
  }
  // Returns the virtual time that gpu_ns cost.
  std::int64_t price_ns(std::int64_t gpu_ns) const { return gpu_ns / std::max<std::int64_t>(1, weight); }

  void assume(std::int64_t now_ns);
  void charge(std::int64_t gpu_ns, bool by_promise);
  // Adds the promise's part of the elapsed time while the gang and another one want the GPU, up to kBudgetWindowNs of it.
  void earn(std::int64_t passed_ns, bool contended);
  void end_turn(std::int64_t now_ns);
  // Returns how time that is given back now was paid: it belongs to a turn that ended recently.
  bool was_reserved() const { return first != last ? oldest_turn().reserved : reserved; }
  const Turn& oldest_turn() const { return turns[first % kTurns]; }  // there must be one
  // Charges turns to the promise, or to the rest, from now on. Also moves what is not yet recorded of earlier turns.
  void pay_by(bool promise, std::int64_t now_ns);
  void choose_payment(std::int64_t now_ns) {
    if (const bool promised = is_promised(); promised != reserved) pay_by(promised, now_ns);
  }
};

struct Gang {
  std::string name;
  std::vector<GangOnGpu> stakes;
  std::vector<ShareId> members;
  std::uint32_t holds = 0;        // GPUs, as bits
  std::int64_t drain_end_ns = 0;  // 0: its turn is not ending
  std::uint32_t rank = 0;         // class, if it counts
  // For ranks that wait for each other: until when all its GPUs open and shut together, and the history of that.
  std::int64_t together_until_ns = 0, together_for_ns = 0;
  std::int32_t waits_seen = 0;  // turns that ended that way, minus those that did not

  GangOnGpu* stake(std::uint32_t gpu) { return find_by(stakes, gpu, &GangOnGpu::gpu); }
  // Returns the most that any of its shares has in flight on one GPU.
  std::int64_t in_flight_ns() const;
  bool is_together(std::int64_t now_ns) const {
    return stakes.size() > 1 && (!name.empty() || now_ns < together_until_ns);
  }
  std::uint32_t wanted() const;  // GPUs, as bits
  // Call at the end of a turn on one of its GPUs. If in most turns its ranks seem to wait for each other, its GPUs are
  // held together.
  void see_turn_end(bool seems_to_wait, std::int64_t now_ns);
};

}  // namespace headgate::schedule
