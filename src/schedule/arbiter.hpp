// Decides which share may use which GPU, and until when. Pure: no clock, I/O or thread; allocates only when shares are
// added or removed. Rules and measurements: docs/decisions/arbiter.md.
//
// Not thread-safe. The caller does this at each doorbell and at each `wake_at_ns`:
//     arbiter.observe(...) for the shares on the GPUs concerned;
//     while (auto turn = arbiter.next_turn(now)) arbiter.settle(*turn, idle time in it);
//     decision = arbiter.decide(now);     // write decision.changes to the gates
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <vector>

#include "schedule/gang.hpp"
#include "schedule/terms.hpp"

namespace headgate::schedule {

inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t kLongestLeaseNs = 5'000'000;
// Of short kernels, if all that want the GPU always have some. If one is below a ceiling, 1 ms for each within the bounds.
inline constexpr std::int64_t kBusyLeaseNs = 6'000'000, kLeastBusyNs = 3'000'000, kMostBusyNs = 4'000'000;
inline constexpr std::int64_t kGangLeaseNs = 50'000'000;  // on several GPUs: fifteen kernels, at least this
inline constexpr std::int64_t kLongestGangLeaseNs = 150'000'000;
inline constexpr std::int64_t kMinWakeNs = 20'000;  // timers are not more accurate
// A batch that fills one pause leaves the GPU idle until the filler learns that it has ended. With much more than two,
// the holder waits for whole time slices of the GPU.
inline constexpr std::int64_t kGapsInAPortion = 2;
inline constexpr std::int64_t kGapOfNone = 1'000'000;   // what a holder without work there leaves to others
inline constexpr std::int64_t kWindowNs = 100'000'000;  // within which every share has had a turn, if kernels allow
inline constexpr std::int64_t kOverlapNs = 100'000;     // how early the successor's first kernel starts before its turn
inline constexpr std::int64_t kSleepNs = 10'000'000;    // longer without work counts as sleep
inline constexpr std::int64_t kGapCreditNs = 20'000'000;      // maximum credit of a share with gaps
inline constexpr std::int64_t kRestCreditNs = 100'000'000;    // and of one that rested at its ceiling, which bounds it
inline constexpr std::int64_t kUnseenRankNs = 2'000'000;      // if ranks were not seen to wait for each other
inline constexpr std::int64_t kUnseenRankLookNs = 5'000'000;  // between looks for such ranks
// How far back it can be known which share had the GPU. If a look is later than that, the gates were not maintained
// meanwhile: that time was no share's turn, and is not charged.
inline constexpr std::int64_t kKnownNs = 80'000'000;
inline constexpr std::int64_t kProtectedNs = 100'000'000;   // after a launch of the latency class
inline constexpr std::int64_t kProtectedBatchNs = 200'000;  // what others may have in flight then, or one kernel
inline constexpr std::int64_t kTogetherNs = 50'000'000;     // a gang's GPUs used within this time are opened together
inline constexpr std::int64_t kIdleLookNs =
    2'000'000;  // this much of a lease is not worth a look whether a steady holder works
// A ceiling may open earlier than reported: time that was another share's is given back.
inline constexpr std::int64_t kRestLookNs = 5'000'000;
inline constexpr std::int64_t kLookNs = 50'000;  // for the end of a kernel that another share waits for
// A share may keep postponing the end that it reports. Looks at a GPU's shares for such reports are limited to one per
// kToldLookNs, plus as many at once as the unused credit allows.
inline constexpr std::int64_t kToldLookNs = 250'000, kToldCreditNs = 10'000'000;
// A turn ends with its last kernels: next to another context's work they would cost two more context switches. A share
// that waits anyway waits at most this long for them, any other at most one time slice of the GPU.
inline constexpr std::int64_t kTailNs = 50'000'000;
inline constexpr std::int64_t kTailLeadNs = 250'000;        // then the rest suffices for the successor's wake-up
inline constexpr std::int64_t kMaxUnwatchedNs = 1'000'000;  // of a turn's end with short kernels
inline constexpr std::int64_t kDrainNs = 2'000'000;         // for a gang's ranks to become level at the end of its turn
inline constexpr std::int64_t kOverdueNs = 150'000;  // a limiter's settler may notice this late that work has ended
inline constexpr std::int64_t kMaxPatienceNs = 20'000'000;  // in addition, with work next to another share's turn
inline constexpr std::int64_t kEarlyNs = 5'000'000;         // how much GPU time early a long kernel may start
inline constexpr std::int64_t kSoughtNs = 20'000'000;       // not alone within this time of another share's kernel
inline constexpr std::int64_t kMaxAheadNs = 10'000'000'000;

struct Decision {
  std::span<const Change> changes;  // valid until the next call
  std::int64_t wake_at_ns = kNever;
  // Then only a turn's last kernels end, as estimated. So the caller may look for that time at once, instead of being
  // woken for it: Change::opens_ns tells the next share when to begin.
  bool is_hand_over = false;
};

class Arbiter {
 public:
  // GPUs 0..gpus-1, all `fair`.
  explicit Arbiter(std::uint32_t gpus);
  ~Arbiter();
  Arbiter(const Arbiter&) = delete;
  Arbiter& operator=(const Arbiter&) = delete;

  void set_policy(std::uint32_t gpu, Policy policy);

  // The share's gates are assumed to be `open_notify`. The caller must refuse GPUs beyond the constructor's and weights
  // of 0.
  ShareId add_share(const ShareTerms& terms);
  // Call after add_share if an earlier arbiter left the share as it is: that time is not charged again, and its gate is
  // `gate`.
  void adopt(ShareId share, std::uint32_t gpu, const Use& use, Gate gate);
  // Changes weights, guarantees and classes of GPUs that it has; ignores others. Gangs do not change.
  void change_share(ShareId share, std::span<const Terms> terms);
  void remove_share(ShareId share);

  // Call if there was no call for longer than the caller's maximum interval, although nothing was due: treats that as a
  // late call.
  void note_absence() { due_ns_ = 0; }

  void observe(ShareId share, std::uint32_t gpu, const Use& reported, std::int64_t now_ns);
  Decision decide(std::int64_t now_ns);

  // Return turns that ended kTurnSettlesNs ago, each once. settle(): for `idle_ns` of it no share had the GPU.
  std::optional<Turn> next_turn(std::int64_t now_ns);
  void settle(const Turn& turn, std::int64_t idle_ns);

  // Returns what the share's gang has been charged on that GPU by weight; 0 for a GPU that it does not have. Stored
  // where a new arbiter finds it, so that it starts fair.
  std::int64_t virtual_time_ns(ShareId share, std::uint32_t gpu) const;

  // Returns by how much less of that GPU the share has had than the rule gives it, because of another share's long
  // kernels; 0 for a GPU that it does not have. Its ceiling may let it make up for that.
  std::int64_t behind_ns(ShareId share, std::uint32_t gpu) const;

  // Returns for how long the share has wanted that GPU, in ns since add_share: it had work there or a launch waited,
  // including waits for its own ceiling, without its own pauses. A promise is owed guarantee_ppm of the increase. 0 for
  // a GPU that it does not have. Never decreases.
  std::int64_t wanted_ns(ShareId share, std::uint32_t gpu) const;

 private:
  struct Gpu {
    Policy policy = Policy::fair;
    Gang* holder = nullptr;
    std::uint32_t wanted_by = 0;                // gangs
    std::uint32_t sought_by = 0;                // gangs that want it, or would without their ceiling
    std::uint32_t short_ready = 0;              // of these, those that always have short kernels for it
    std::uint32_t longer = 0, longer_wait = 0;  // those with longer ones; those of them that only wait for their turn
    bool all_short() const { return sought_by > 1 && short_ready == sought_by; }
    // Two or more of those that seek it have short kernels ready, and these others are all the rest.
    bool all_short_but(std::uint32_t others) const { return short_ready > 1 && short_ready + others == sought_by; }
    // Its clocks, one per class that counts: virtual time of the gang of that class that is furthest behind. Never
    // decreases.
    std::array<std::int64_t, kRanks> least_ns{};
    std::int64_t protected_until_ns = 0;
    std::int64_t told_look_ns = kNever;  // when to look at what its shares report
    std::int64_t told_paid_ns = 0;       // until when such looks are paid for
    std::uint32_t kept_out = 0;          // shares on it that want it and find their gate shut
    std::int64_t gap_ns = 0;             // the holder's pauses
    std::uint32_t fillers = 0;           // others at work with kernels that fit into them
    std::int64_t hand_over_ns = 0;       // when the holder's last kernels have almost ended, if they are short
  };

  // GPUs of a gang that one decision gives and takes: one, or all on which ranks that wait for each other work.
  struct Unit {
    Gang* gang = nullptr;
    std::uint32_t gpus = 0;  // as bits
    // The order: first units that are owed a promise, longest overdue first; then least virtual time.
    bool promised = false;
    std::int64_t tag_ns = 0;

    auto stakes() const {
      return std::views::filter(gang->stakes,
                                [gpus = gpus](const GangOnGpu& each) { return (gpus & each.bit()) != 0; });
    }
    GangOnGpu& first() const { return stakes().front(); }
    bool is_single() const { return std::has_single_bit(gpus); }  // one GPU
    bool is_held() const { return (gang->holds & gpus) == gpus; }
    std::int64_t lease_end_ns() const;
    void end_lease_at(std::int64_t ns) const;
  };

  auto stakes() const {
    const auto of = [](const std::unique_ptr<Gang>& gang) -> std::vector<GangOnGpu>& { return gang->stakes; };
    return gangs_ | std::views::transform(of) | std::views::join;
  }
  // Returns those that want the GPU, or would without their ceiling.
  auto seekers(std::uint32_t gpu) const {
    return stakes() | std::views::filter([gpu](const GangOnGpu& each) { return each.gpu == gpu && each.seeks(); });
  }
  bool was_away(std::int64_t now_ns) const { return due_ns_ != kNever && now_ns - due_ns_ > kKnownNs; }
  // Null: the share is not there, or not on that GPU.
  GangOnGpu* stake_of(ShareId share, std::uint32_t gpu) const {
    Gang* const gang = gang_of_[share];
    return gang == nullptr ? nullptr : gang->stake(gpu);
  }
  std::int64_t& clock_ns(const GangOnGpu& stake) { return gpus_[stake.gpu].least_ns[stake.gang->rank]; }
  bool is_contended(const GangOnGpu& stake) const { return gpus_[stake.gpu].wanted_by > (stake.wants ? 1u : 0u); }
  bool is_contended(const Unit& unit) const;
  bool is_sought(const GangOnGpu& stake) const { return gpus_[stake.gpu].sought_by > (stake.seeks() ? 1u : 0u); }

  // wants.cpp
  void refresh(std::int64_t now_ns);
  void look_for_wants(Gang& gang, std::int64_t now_ns, std::int64_t since_ns);
  void change_rank(Gang& gang, std::uint32_t rank);
  void advance_clocks();
  void keep_distance(GangOnGpu& stake);

  // fluid_pace.cpp
  void keep_pace(std::int64_t now_ns, std::int64_t passed_ns);
  void fill(std::uint32_t gpu);
  static bool is_early(const GangOnGpu& stake, const ShareOnGpu& place, std::int64_t now_ns);
  static std::int64_t on_pace_ns(const GangOnGpu& stake, const ShareOnGpu& place, std::int64_t now_ns);

  // turns.cpp
  template <typename Use>
  static void each_unit(Gang& gang, std::uint32_t gpus, std::int64_t now_ns, Use use);
  template <typename Use>
  void each_held(std::int64_t now_ns, Use use);
  void order(std::int64_t now_ns);
  void set_tag(Unit& unit);
  void end_leases(std::int64_t now_ns);
  const Unit* successor(std::uint32_t gpus) const;
  const Unit* next_other(const Unit& unit) const;
  bool drains(const Unit& held, const Unit& next, std::int64_t now_ns);
  bool ends_with_its_kernels(const Unit& held, const Unit& next, std::int64_t now_ns);
  void grant(std::int64_t now_ns);
  bool stays(const Unit& unit, std::int64_t now_ns) const;
  void hold(const Unit& unit, std::int64_t now_ns);
  void begin_lease(const Unit& unit, std::int64_t now_ns);
  void end_lease_level(const Unit& held, std::int64_t now_ns) const;
  void release(Gang& gang, std::uint32_t gpus);
  std::int64_t lease_ns(const Unit& unit) const;
  bool runs_long_beside(const GangOnGpu& stake) const;
  bool seems_to_wait(const Gang& gang) const;

  // gate_choice.cpp
  void set_gates(std::int64_t now_ns);
  void share_gaps(std::int64_t now_ns);
  Change gate_of(const GangOnGpu& stake, const ShareOnGpu& place, std::int64_t now_ns) const;
  bool tail_of_others(const GangOnGpu& mine, std::int64_t now_ns) const;
  bool is_next(const GangOnGpu& stake, std::int64_t now_ns) const;
  std::int64_t rank_patience_ns(const GangOnGpu& stake, const ShareOnGpu& place, std::int64_t now_ns) const;
  bool is_awaited(const GangOnGpu& stake, const ShareOnGpu& mine, std::int64_t now_ns) const;

  void record_turns(std::int64_t now_ns);

  // wake_time.cpp
  void pay_for_told_looks(std::int64_t now_ns);
  std::int64_t protected_look_ns(std::uint32_t gpu, std::int64_t now_ns) const;
  bool successor_waits(const Unit& unit, std::int64_t now_ns) const;
  bool goes_on(const Unit& unit, std::int64_t now_ns) const;
  std::int64_t rank_look_ns(const Unit& unit, std::int64_t now_ns) const;
  std::int64_t wake_at_ns(std::int64_t now_ns);

  std::uint32_t gpu_count_;
  std::array<Gpu, kMaxGpus> gpus_{};
  std::int64_t refreshed_ns_ = 0;
  std::int64_t due_ns_ = kNever;              // when it last asked to be woken
  std::vector<Gang*> gang_of_;                // by share; null: the id is unused
  std::vector<std::unique_ptr<Gang>> gangs_;  // GPUs and stakes point at them
  std::vector<Unit> order_;
  std::vector<Change> changes_;
};

}  // namespace headgate::schedule
