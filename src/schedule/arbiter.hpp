// Decides which share may use which GPU, and until when. Pure: no clock, I/O or thread; allocates only when shares are
// added or removed. Rules and measurements: docs/decisions/arbiter.md.
//
// Not thread-safe. The caller does this at each doorbell and at each `wake_at_ns`:
//     arbiter.observe(...) for the shares on the GPUs concerned;
//     while (auto turn = arbiter.next_turn(now)) arbiter.settle(*turn, idle time in it);
//     decision = arbiter.decide(now);     // write decision.changes to the gates
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "schedule/gang.hpp"
#include "schedule/terms.hpp"

namespace headgate::schedule {

inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t kShortestLeaseNs = 2'500'000, kLongestLeaseNs = 5'000'000;
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
inline constexpr std::int64_t kWakeCreditNs = 5'000'000;    // maximum credit of a share that wakes up
inline constexpr std::int64_t kGapCreditNs = 20'000'000;    // and of one with gaps
inline constexpr std::int64_t kRestCreditNs = 100'000'000;  // and of one that rested at its ceiling, which bounds it
// At the end of a turn, ranks wait for each other if their work is older than this plus two kernels.
inline constexpr std::int64_t kRankWaitsNs = 2'000'000;
inline constexpr std::int64_t kUnseenRankNs = 2'000'000;    // if ranks were not seen to wait for each other
inline constexpr std::int64_t kTurnSettlesNs = 10'000'000;  // by then it is known which shares used a turn
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
inline constexpr std::int64_t kTailLeadNs = 250'000;   // then the rest suffices for the successor's wake-up
inline constexpr std::int64_t kDrainLookNs = 500'000;  // the last kernel may end earlier than estimated
inline constexpr std::int64_t kDrainNs = 2'000'000;    // for a gang's ranks to become level at the end of its turn
inline constexpr std::int64_t kOverdueNs = 150'000;    // a limiter's settler may notice this late that work has ended
inline constexpr std::int64_t kMaxPatienceNs = 20'000'000;  // in addition, with work next to another share's turn
inline constexpr std::int64_t kEarlyNs = 5'000'000;         // how much GPU time early a long kernel may start
inline constexpr std::int64_t kSoughtNs = 20'000'000;       // not alone within this time of another share's kernel
inline constexpr std::int64_t kMaxAheadNs = 10'000'000'000;

struct Decision {
  std::span<const Change> changes;  // valid until the next call
  std::int64_t wake_at_ns = kNever;
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

  // Returns for how long the share has wanted that GPU, in ns since add_share: it had work there or a launch waited,
  // including waits for its own ceiling. A promise is owed guarantee_ppm of the increase. 0 for a GPU that it does not
  // have. Never decreases.
  std::int64_t wanted_ns(ShareId share, std::uint32_t gpu) const;

 private:
  struct Gpu {
    Policy policy = Policy::fair;
    Gang* holder = nullptr;
    std::uint32_t wanted_by = 0;  // gangs
    std::uint32_t sought_by = 0;  // gangs that want it, or would without their ceiling
    // Its clocks, one per class that counts: virtual time of the gang of that class that is furthest behind. Never
    // decreases.
    std::array<std::int64_t, kRanks> least_ns{};
    std::int64_t protected_until_ns = 0;
    std::int64_t told_look_ns = kNever;  // when to look at what its shares report
    std::int64_t told_paid_ns = 0;       // until when such looks are paid for
    std::uint32_t kept_out = 0;          // shares on it that want it and find their gate shut
    std::int64_t gap_ns = 0;             // the holder's pauses
    std::uint32_t fillers = 0;           // shares with kernels that fit into them
  };

  // GPUs of a gang that one decision gives and takes: one, or all on which ranks that wait for each other work.
  struct Unit {
    Gang* gang = nullptr;
    std::uint32_t gpus = 0;  // as bits
    // The order: first units that are owed a promise, longest overdue first; then least virtual time.
    bool promised = false;
    std::int64_t tag_ns = 0;
    friend bool operator==(const Unit&, const Unit&) = default;
  };

  // A gang's part of a GPU in the fluid, 0..1.
  struct Claim {
    GangOnGpu* stake = nullptr;
    double part = 0;
    bool full = false;  // it is at its ceiling
  };

  struct GateDecision {
    Gate gate;
    std::int64_t batch_ns;
  };

  bool was_away(std::int64_t now_ns) const { return due_ns_ != kNever && now_ns - due_ns_ > kKnownNs; }
  void forget_open_turns();
  void refresh(std::int64_t now_ns);
  void look_for_wants(Gang& gang, std::int64_t now_ns, std::int64_t passed_ns);
  std::int64_t& clock_ns(const Gang& gang, std::uint32_t gpu) { return gpus_[gpu].least_ns[gang.rank]; }
  std::int64_t clock_ns(const Gang& gang, std::uint32_t gpu) const { return gpus_[gpu].least_ns[gang.rank]; }
  void change_rank(Gang& gang, std::uint32_t rank);
  void catch_up(Gang& gang, GangOnGpu& stake, std::int64_t credit_ns);
  void go_on();
  void order(std::int64_t now_ns);
  Unit unit_of(Gang& gang, std::uint32_t gpus) const;
  template <typename Use>
  void each_held(std::int64_t now_ns, Use use);
  void end_leases(std::int64_t now_ns);
  const Unit* successor(std::uint32_t gpus) const;
  bool drains(const Unit& held, const Unit& next, std::int64_t now_ns);
  bool ends_with_its_kernels(const Unit& held, const Unit& next, std::int64_t now_ns);
  bool is_always_busy(const Gang& gang, std::uint32_t gpu, std::int64_t now_ns) const;
  void grant(std::int64_t now_ns);
  bool stays(const Unit& unit, std::int64_t now_ns) const;
  void hold(const Unit& unit, std::int64_t now_ns);
  void begin_lease(const Unit& unit, std::int64_t now_ns);
  void release(Gang& gang, std::uint32_t gpus);
  void record_turns(std::int64_t now_ns);
  bool contended(const Gang& gang, std::uint32_t gpus) const;
  bool is_contended(const GangOnGpu& stake) const { return gpus_[stake.gpu].wanted_by > (stake.wants ? 1u : 0u); }
  bool is_sought(const GangOnGpu& stake) const { return gpus_[stake.gpu].sought_by > (stake.seeks() ? 1u : 0u); }
  std::int64_t lease_ns(const Unit& unit) const;
  static std::int64_t lease_end_ns(const Unit& unit);
  std::int64_t protected_look_ns(const Gpu& gpu, std::int64_t now_ns) const;
  bool keeps_out(std::uint32_t gpus) const;
  void pay_for_told_looks(std::int64_t now_ns);
  std::int64_t wake_at_ns(std::int64_t now_ns);
  ShareOnGpu* share_on(ShareId share, std::uint32_t gpu);
  bool runs_long_beside(const Gang& gang, std::uint32_t gpu) const;
  bool seems_to_wait(const Gang& gang) const;

  // fluid_pace.cpp
  void keep_pace(std::int64_t now_ns, std::int64_t passed_ns);
  static void fill(std::span<Claim> claims);
  bool is_early(const Gang& gang, const GangOnGpu& stake, const ShareOnGpu& place, std::int64_t now_ns) const;
  static std::int64_t on_pace_ns(const GangOnGpu& stake, const ShareOnGpu& place, std::int64_t now_ns);

  // gate_choice.cpp
  void set_gates(std::int64_t now_ns);
  void share_gaps(std::int64_t now_ns);
  GateDecision standing_of(const Share& share, const ShareOnGpu& place, std::int64_t now_ns) const;
  static bool is_closed(Gate gate) { return gate == Gate::shut || gate == Gate::queued; }
  static GateDecision closed(const ShareOnGpu& place, std::int64_t now_ns);
  bool tail_of_others(const Share& mine, std::uint32_t gpu, std::int64_t now_ns) const;
  static bool fits_gap(const ShareOnGpu& place, const Gpu& gpu);
  static std::int64_t filler_portion_ns(const ShareOnGpu& place, const Gpu& gpu);
  bool is_next(const Gang& gang, std::uint32_t gpu, std::int64_t now_ns) const;
  std::int64_t ahead_ns(const Gang& gang) const;
  bool is_awaited(const Gang& gang, const ShareOnGpu& mine, std::int64_t now_ns) const;

  std::uint32_t gpu_count_;
  std::array<Gpu, kMaxGpus> gpus_{};
  std::int64_t refreshed_ns_ = 0;
  std::int64_t due_ns_ = kNever;              // when it last asked to be woken
  std::vector<Share> shares_;                 // by id; an unused one has no places
  std::vector<std::unique_ptr<Gang>> gangs_;  // shares and GPUs point at them
  std::vector<Unit> order_;
  std::vector<Claim> claims_;
  std::vector<Change> changes_;
};

}  // namespace headgate::schedule
