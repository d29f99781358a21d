// GPU time by the driver against GPU time by the ledgers: who keeps a GPU busy while the account of his share, or his
// own seat in it, says (nearly) nothing. Pure.
//
// What the driver calls busy is not what a share holds. NVML counts time in which any kernel ran, rounds it, tells the
// mean of a period of up to a second that may have ended by now, and of short kernels it also counts what lies around
// each. So figures that are near each other prove nothing, and neither do figures that differ by a few times: named is
// who is believed to have had less than a twentieth of what the driver says, in three steps of a second, one after the
// other (docs/security.md says what that leaves open).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "observe/explanation.hpp"
#include "observe/join.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::observe {

struct ComputeRules {
  double least_busy_ratio = 0.2;  // by the driver; below it nobody is looked at, alone (here) or together (ShareSum)
  // The driver tells whole percents, and may round each of many processes up: so much of each counts for nothing in a
  // sum.
  double rounded_ratio = 0.01;
  // Of what the driver says, the account has at least this much. A kernel of 1.5 us, about the shortest there is, would
  // have to be surrounded by 28 us that the driver counts as busy to be below it.
  double least_accounted_ratio = 0.05;
  // Of what is nearer than this to each other no difference is made; NVML rounds, and counts the time in which any
  // kernel ran.
  double slack_ratio = 0.15;
  std::uint64_t step_ns = 900'000'000;  // looks that follow sooner belong to one step
  std::uint32_t steps = 3;              // more than the second by which the driver's figure can be late
  // Work that was sent while nobody metered the share runs on and is in no account: after metering begins, nobody is
  // looked at.
  std::uint64_t grace_ns = 10'000'000'000;
  // A command that its limiter could not charge while it ran is in the account when it ends: a seat that says that one
  // is in flight, and has sent nothing since, is believed for so long. So is whatever else may explain a difference
  // (explanation.hpp): what goes on for longer is only told of.
  std::uint64_t long_call_ns = 30'000'000'000;
  // Looks further apart are of a daemon that was stalled: the driver's figure is of the last second of that time alone.
  std::uint64_t stall_ns = 2'500'000'000;
  // Whether the process cannot account for what it has in flight: it is stopped, or frozen. Asked of suspects. May be
  // empty.
  std::function<bool(std::uint32_t pid)> frozen;
};

// What the ledger says of one process's work on one GPU.
struct ComputeWords {
  bool metered = false;                     // its limiter measures
  std::uint64_t held_ns = 0, copy_ns = 0;   // of the whole share
  std::uint64_t launches = 0;               // its own
  bool working = false;                     // it says that it has work in flight, or it is not asked
  std::uint64_t share_launches = 0;         // of all processes of the share that sit in it
  std::optional<std::uint64_t> pulse = {};  // moves while it is at work; none without an arbiter
};
using ComputeBooks = std::map<std::pair<std::uint32_t, std::string>, ComputeWords>;  // by host pid and GPU

// Shares with a damaged page are left out: they have a name already.
[[nodiscard]] ComputeBooks compute_books(const JoinInput& input);

class ComputeCheck {
 public:
  explicit ComputeCheck(ComputeRules rules = {}) : rules_(std::move(rules)) {}

  void look(const snapshot::Snapshot& snapshot, const ComputeBooks& books);

  struct Verdict {
    std::string text;   // "keeps 90 % on GPU 0 busy by the driver, ..."
    bool ripe = false;  // it was so in all the steps that it takes
    // Nothing else could explain it in any of as many steps: only then may more be done than to tell of it.
    bool certain = false;
  };
  // Of the last snapshot.
  [[nodiscard]] std::optional<Verdict> of(std::uint32_t pid, const std::string& uuid) const;
  // For how long, up to the last step, the process was busier than the account and something else than a false account
  // explained it; 0: it was not, or nothing did.
  [[nodiscard]] std::uint64_t explained_ns(std::uint32_t pid, const std::string& uuid) const;
  // The share's account was seen to hold at least half of what the driver said.
  [[nodiscard]] bool is_proven(const std::string& share) const { return proven_.contains(share); }

 private:
  struct Track {
    ComputeWords from;  // as they were when the step began; working: at any look of it
    std::uint64_t from_ns = 0, looked_ns = 0, unmetered_ns = 0;
    double busy_ns = 0, told_ns = 0;  // by the driver, and for how long it told
    double counted_times = 1;         // at most, in this step
    bool shares_sms = false;          // its kernels run beside other processes', under MPS
    bool in_flight = true;            // at all looks of this step
    std::uint64_t explained_ns = 0;   // for how long something else has explained it without a break
    std::uint32_t steps = 0, certain_steps = 0;
    std::string text;
    bool seen = false;
  };

  void begin_step(Track& track, const ComputeWords& words, std::uint64_t now_ns) const;
  void end_step(Track& track, const snapshot::Process& process, const std::string& where, const ComputeWords& words,
                std::uint64_t now_ns);

  ComputeRules rules_;
  std::map<std::pair<std::uint32_t, std::string>, Track> tracks_;
  std::set<std::string> proven_;
};

}  // namespace headgate::observe
