// Compares the GPU time of a share's processes together, by the driver, with the share's account: finds work split over
// so many that each alone is too little to judge (the rules are compute_check.hpp's). Pure.
//
// A process's figure may be of few of the driver's periods, a second late, and more than the truth. Except for
// rounding, that is no worse for a sum than for each.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "observe/compute_check.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::observe {

class ShareSum {
 public:
  explicit ShareSum(ComputeRules rules = {}) : rules_(std::move(rules)) {}

  void look(const snapshot::Snapshot& snapshot, const ComputeBooks& books);
  // Returns a verdict of the last snapshot: on processes that have launched nothing meanwhile, else on all in the sum.
  [[nodiscard]] std::optional<ComputeCheck::Verdict> of(std::uint32_t pid, const std::string& uuid) const;
  // As ComputeCheck::is_proven().
  [[nodiscard]] bool is_proven(const std::string& share) const { return proven_.contains(share); }

 private:
  struct Member {
    double busy_ns = 0;                             // by the driver, in this step
    std::uint64_t launches = 0, launches_then = 0;  // now, and when the step began
    std::uint64_t looked_ns = 0;
    std::uint64_t in_call_since_ns = 0;  // it has reported a command in flight since then; 0: it does not
  };
  struct Track {
    ComputeWords now, from;  // the share's account: at the last look, and when the step began
    std::uint64_t from_ns = 0, looked_ns = 0, unmetered_ns = 0;
    double told_ns = 0;              // for how long the driver had figures of any of them
    double counted_times = 1;        // at most, in this step
    bool in_flight = true;           // of each that the driver calls busy, at all looks of this step
    std::uint64_t explained_ns = 0;  // as ComputeCheck's
    std::map<std::uint32_t, Member> members;
    std::uint32_t steps = 0, certain_steps = 0;
    std::map<std::uint32_t, std::string> named;  // in the last step, with what is said of each
    bool seen = false, told = false;             // in this snapshot; by the driver, of any of them
  };

  void add(Track& track, const snapshot::Process& process, const snapshot::ProcessDevice& device,
           const ComputeWords& words, std::uint64_t now_ns) const;
  void begin_step(Track& track, std::uint64_t now_ns) const;
  void end_step(Track& track, const std::string& share, const std::string& where, std::uint64_t now_ns);
  [[nodiscard]] double busy_ratio(const Track& track, const Member& member) const;
  [[nodiscard]] double busy_ratio(const Track& track) const;

  ComputeRules rules_;
  std::map<std::pair<std::string, std::string>, Track> tracks_;  // by share and GPU
  std::map<std::pair<std::uint32_t, std::string>, ComputeCheck::Verdict> verdicts_;
  std::set<std::string> proven_;
};

}  // namespace headgate::observe
