// Who may use which GPU, and until when. Pure: no clock, no I/O, no thread; allocates only when shares come and go.
// The rules and what was measured of them: docs/decisions/arbiter.md.
//
// Not thread-safe. Whoever runs it does, at each doorbell and at each `wake_at_ns`:
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
inline constexpr std::int64_t kLeastWakeNs = 20'000;  // no timer is better than that
// A portion that fills one pause leaves the GPU idle while the filler learns that it has ended; much more than two, and the
// holder waits for whole time slices of the GPU's.
inline constexpr std::int64_t kGapsInAPortion = 2;
inline constexpr std::int64_t kGapOfNone = 1'000'000;       // what a holder that has no work there leaves to others
inline constexpr std::int64_t kWindowNs = 100'000'000;      // within which everybody has had a turn, if kernels allow
inline constexpr std::int64_t kOverlapNs = 100'000;         // the successor's first kernel goes so long before its turn
inline constexpr std::int64_t kSleepNs = 10'000'000;        // longer without work is sleep
inline constexpr std::int64_t kWakeCreditNs = 5'000'000;    // what a share that wakes up is ahead of the others at most
inline constexpr std::int64_t kGapCreditNs = 20'000'000;    // and one that has gaps
inline constexpr std::int64_t kUnlevelNs = 100'000'000;     // of GPU time; clocks that differ by less are level
inline constexpr std::int64_t kTurnSettlesNs = 10'000'000;  // by then it is known who had the GPU in a turn
// How far back it can be known who had the GPU. Who looks later than that after it was time has not minded the gates: what
// happened meanwhile was nobody's turn, and is charged to nobody.
inline constexpr std::int64_t kKnownNs = 80'000'000;
inline constexpr std::int64_t kProtectedNs = 100'000'000;     // after a launch of the latency class
inline constexpr std::int64_t kProtectedPortionNs = 200'000;  // what others may have in flight then, or one kernel
inline constexpr std::int64_t kTogetherNs = 50'000'000;       // GPUs that a gang used within this are opened together
inline constexpr std::int64_t kIdleLookNs =
    2'000'000;                                   // so much of a lease is not worth a look whether a steady holder works
inline constexpr std::int64_t kLookNs = 50'000;  // for the end of a kernel that somebody waits for
// What a share says of itself is over at a time may be put off at that time, again and again. A GPU's shares are looked at for what
// they say once in such a time, and as often at once as they were not in the credit.
inline constexpr std::int64_t kToldLookNs = 250'000, kToldCreditNs = 10'000'000;
inline constexpr std::int64_t kDrainNs = 2'000'000;  // for a gang's ranks to come level when its turn ends
inline constexpr std::int64_t kOverdueNs = 150'000;  // a limiter's settler may be so late to see that work has ended
inline constexpr std::int64_t kMostPatienceNs = 20'000'000;  // with work beside another's turn, besides

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

  // The share's gates are taken to be `tell`. GPUs beyond the constructor's and weights of 0 are the caller's to refuse.
  ShareId add_share(const ShareTerms& terms);
  // After add_share, where an earlier arbiter left the share as it is: that time is not charged again, and its gate stands so.
  void adopt(ShareId share, std::uint32_t gpu, const Use& use, Gate gate);
  // Weights, guarantees and classes of GPUs that it has; others are ignored. Gangs do not change.
  void change_share(ShareId share, std::span<const Terms> terms);
  void remove_share(ShareId share);

  // Nobody has asked for longer than was agreed with whoever asks now and then though nothing is due: as if that had been late.
  void note_absence() { due_ns_ = 0; }

  void observe(ShareId share, std::uint32_t gpu, const Use& reported, std::int64_t now_ns);
  Decision decide(std::int64_t now_ns);

  // Turns that ended kTurnSettlesNs ago, each once. settle: `idle_ns` of it nobody had the GPU.
  std::optional<Turn> next_turn(std::int64_t now_ns);
  void settle(const Turn& turn, std::int64_t idle_ns);

  // To be kept where a new arbiter finds it, so that it starts fair: what the share's gang has been charged, by weight.
  std::int64_t virtual_time_ns(ShareId share) const;

 private:
  struct Gpu {
    Policy policy = Policy::fair;
    Gang* holder = nullptr;
    std::uint32_t wanted_by = 0;  // gangs
    // Its clocks, one for each class that counts: virtual time of whoever of that class is furthest behind; none goes back.
    std::array<std::int64_t, kRanks> least_ns{};
    std::int64_t protected_until_ns = 0;
    std::int64_t told_look_ns = kNever;  // when to look for what its shares say
    std::int64_t told_paid_ns = 0;       // until when such looks are paid for
    std::uint32_t kept_out = 0;          // places that want it and find their gate shut
    std::int64_t gap_ns = 0;             // the holder's pauses
    std::uint32_t fillers = 0;           // shares whose kernels fit into them
  };

  struct Standing {
    Gate gate;
    std::int64_t portion_ns;
  };

  bool was_away(std::int64_t now_ns) const { return due_ns_ != kNever && now_ns - due_ns_ > kKnownNs; }
  void forget_open_turns();
  void refresh(std::int64_t now_ns);
  std::int64_t& clock_ns(const Gang& gang, std::uint32_t gpu) { return gpus_[gpu].least_ns[gang.rank]; }
  std::int64_t furthest_clock_ns(const Gang& gang) const;
  void change_rank(Gang& gang, std::uint32_t rank);
  void level_clocks(const Gang& gang);
  std::uint32_t linked_to(std::uint32_t gpu) const;
  void catch_up(Gang& gang, std::int64_t credit_ns);
  void end_leases(std::int64_t now_ns);
  void assume(std::int64_t now_ns);
  void keep_promises(std::int64_t now_ns);
  void order();
  const Gang* successor(const Gang& holder) const;
  bool drains(Gang& gang, std::int64_t now_ns);
  void grant(std::int64_t now_ns);
  bool stays(const Gang& gang, std::int64_t now_ns) const;
  void hold(Gang& gang, std::int64_t now_ns);
  void release(Gang& gang);
  void record_turns(std::int64_t now_ns);
  bool contended(const Gang& gang) const;
  std::int64_t lease_ns(const Gang& gang) const;
  std::int64_t protected_look_ns(const Gpu& gpu, std::int64_t now_ns) const;
  bool keeps_out(const Gang& gang) const;
  void pay_for_told_looks(std::int64_t now_ns);
  std::int64_t wake_at_ns(std::int64_t now_ns);
  Place* place_of(ShareId share, std::uint32_t gpu);

  // gate_choice.cpp
  void set_gates(std::int64_t now_ns);
  void share_gaps(std::int64_t now_ns);
  Standing standing_of(const Share& share, const Place& place, std::int64_t now_ns) const;
  static bool is_closed(Gate gate) { return gate == Gate::shut || gate == Gate::queued; }
  static Standing closed(const Place& place, std::int64_t now_ns);
  bool tail_of_others(const Share& mine, std::uint32_t gpu, std::int64_t now_ns) const;
  static bool fits_gap(const Place& place, const Gpu& gpu);
  static std::int64_t filler_portion_ns(const Place& place, const Gpu& gpu);
  bool is_next(const Gang& gang, const Gpu& gpu, std::int64_t now_ns) const;
  std::int64_t ahead_ns(const Gang& gang) const;
  bool is_awaited(const Gang& gang, const Place& mine, std::int64_t now_ns) const;

  std::uint32_t gpu_count_;
  std::array<Gpu, kMostGpus> gpus_{};
  std::int64_t refreshed_ns_ = 0;
  std::int64_t due_ns_ = kNever;              // when it asked to be woken last
  std::vector<Share> shares_;                 // by id; a free one has no places
  std::vector<std::unique_ptr<Gang>> gangs_;  // shares and GPUs point at them
  std::vector<Gang*> order_;
  std::vector<Change> changes_;
};

}  // namespace headgate::schedule
