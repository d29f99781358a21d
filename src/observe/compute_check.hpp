// Compares GPU time by the driver with GPU time by the ledgers: finds processes that keep a GPU busy while their
// share's account, or their seat in it, shows (nearly) nothing. Pure.
//
// What the driver calls busy is not what a share holds. NVML counts time in which any kernel ran, rounds it, and
// reports the mean of a period of up to a second that may be over. Of short kernels it also counts the time around
// each. So figures that are close, or differ by a few times, prove nothing. Named is a process that had, by the
// account, less than a twentieth of what the driver says, in three consecutive steps of a second (docs/security.md says
// what that leaves open).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "observe/join.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::observe {

struct ComputeRules {
  double least_busy_ratio = 0.2;  // by the driver; below it no process is judged, alone (here) or together (ShareSum)
  // The driver reports whole percents, and may round each of many processes up: a sum leaves this much of each out.
  double rounded_ratio = 0.01;
  // The account has at least this part of what the driver says. To be below it, a kernel of 1.5 us, about the shortest
  // there is, would have to be surrounded by 28 us that the driver counts as busy.
  double least_accounted_ratio = 0.05;
  // Figures closer than this count as equal; NVML rounds, and counts the time in which any kernel ran.
  double slack_ratio = 0.15;
  std::uint64_t step_ns = 900'000'000;  // looks that follow sooner belong to one step
  std::uint32_t steps = 3;              // more than the second by which the driver's figure can be late
  // Work sent before metering began runs on and is in no account: for so long after that, no process is judged.
  std::uint64_t grace_ns = 10'000'000'000;
  // A command that its limiter could not charge while it ran is in the account when it ends. A seat that reports one in
  // flight, and has sent nothing since, is believed for so long. So is anything else that may explain a difference
  // (below); what lasts longer is only reported.
  std::uint64_t long_call_ns = 30'000'000'000;
  // Looks further apart mean a stalled daemon: the driver's figure covers only the last second of that time.
  std::uint64_t stall_ns = 2'500'000'000;
  // Returns whether the process is stopped or frozen, and so cannot account for what it has in flight. Called for
  // suspects. May be empty.
  std::function<bool(std::uint32_t pid)> frozen;
};

// What the ledger says of one process's work on one GPU.
struct ComputeWords {
  bool metered = false;                     // its limiter measures
  std::uint64_t held_ns = 0, copy_ns = 0;   // of the whole share
  std::uint64_t launches = 0;               // its own
  bool working = false;                     // it reports work in flight, or is not asked to
  std::uint64_t share_launches = 0;         // of all processes in the share
  std::optional<std::uint64_t> pulse = {};  // moves while it works; none without an arbiter
};
using ComputeBooks = std::map<std::pair<std::uint32_t, std::string>, ComputeWords>;  // by host pid and GPU

// Leaves out shares with a damaged page: those have been named already.
[[nodiscard]] ComputeBooks compute_books(const JoinInput& input);

class ComputeCheck {
 public:
  explicit ComputeCheck(ComputeRules rules = {}) : rules_(std::move(rules)) {}

  void look(const snapshot::Snapshot& snapshot, const ComputeBooks& books);

  struct Verdict {
    std::string text;   // "keeps 90 % on GPU 0 busy according to the driver, ..."
    bool ripe = false;  // it was so in all the steps needed
    // Nothing else could explain it in any of these steps. Otherwise it may only be reported.
    bool certain = false;
  };
  // Returns the verdict of the last snapshot.
  [[nodiscard]] std::optional<Verdict> of(std::uint32_t pid, const std::string& uuid) const;
  // Returns for how long, up to the last step, the process was busier than the account and another explanation than a
  // false account applied; 0: not at all.
  [[nodiscard]] std::uint64_t explained_ns(std::uint32_t pid, const std::string& uuid) const;
  // Returns whether the share's account was seen to hold at least half of what the driver said.
  [[nodiscard]] bool is_proven(const std::string& share) const { return proven_.contains(share); }

 private:
  struct Track {
    ComputeWords from;  // as the step began; working: at any look of it
    std::uint64_t from_ns = 0, looked_ns = 0, unmetered_ns = 0;
    double busy_ns = 0, told_ns = 0;  // by the driver, and the time for which it gave figures
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

// Reasons other than a false account for the driver to call processes busier than their share's account. Pure.
//
//   several at once   Kernels of MPS clients run at the same time, and a driver may count a time slice for each process
//                     that waited for one. The account divides such time among the shares.
//   work in flight    The limiter charges a command of unknown length as a short one, and in full when it ends.
//   a stall           The daemon or the limiter did not run, so that the figures are of different times.

// Returns for how many processes the driver's figures of that GPU may count the same time, 1 or more. That is the sum
// of its figures for all there, but under MPS as many as there are.
[[nodiscard]] double counted_times(const snapshot::Snapshot& snapshot, const std::string& uuid);

// What a share did on a GPU in one step.
struct StepWork {
  bool in_flight = false;      // the process, or each busy one, had work in flight at all looks
  bool launched = false;       // the process, or one of them, has launched meanwhile
  std::uint64_t held_ns = 0;   // added to the share's account
  std::uint64_t launches = 0;  // of all processes of the share
};

// Returns whether the rest of the time may reach the account only when what is in flight has ended. So it is if nothing
// was launched since, or each launch was charged about as much as one of unknown length. It is not if the account does
// not move while launches end.
[[nodiscard]] bool may_be_in_flight(const StepWork& step);

}  // namespace headgate::observe
