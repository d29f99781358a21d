// The product's rule as a fluid model: what each share of one GPU should get, computed without a scheduler.
//
// At every instant a share with work gets min(its guarantee, its ceiling). The rest goes to shares with work, by
// weight, up to their ceilings (water-filling). This is generalised processor sharing (Parekh and Gallager 1993) with
// reservations and limits. Work is infinitely divisible here, so a real schedule differs by what is in flight.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace headgate::limiter::model {

// All values are fractions of the GPU's time, 0..1.
struct Claim {
  double promise = 0;
  double weight = 1;
  double ceiling = 1;
};

// Returns what each claim gets; `wants` tells which claims have work. Their guarantees must not exceed 1 in total.
std::vector<double> fair_parts(std::span<const Claim> claims, const std::vector<bool>& wants);

// Demand of one process of a share: `work_ns` of GPU time, then a pause of `gap_ns`, or the next work every `every_ns`
// (at once if that has passed). work_ns 0: unlimited work.
struct Demand {
  std::int64_t work_ns = 0, gap_ns = 0, every_ns = 0;
  std::int64_t from_ns = 0, until_ns = INT64_MAX;
};

struct FluidShare {
  Claim claim;
  std::vector<Demand> processes{};
  bool paused = false;
};

// One GPU from time 0 on. Changes take effect at the time up to which it was run.
class Fluid {
 public:
  explicit Fluid(std::vector<FluidShare> shares);
  void run(std::int64_t until_ns);
  FluidShare& share(std::size_t index) { return shares_[index]; }
  void end_process(std::size_t share);  // ends the first that is left
  double had_ns(std::size_t share) const { return had_ns_[share]; }

 private:
  struct Progress {
    bool ended = false;
    double left_ns = 0;       // of the requested work; ignored if work_ns is 0
    std::int64_t due_ns = 0;  // time of the next request
  };
  bool has_work(std::size_t share, std::size_t process) const;
  std::int64_t next_change_ns(std::span<const double> parts, std::span<const int> busy) const;
  void serve(std::size_t share, std::size_t process, double served_ns, std::int64_t end_ns);

  std::vector<FluidShare> shares_;
  std::vector<std::vector<Progress>> progress_;
  std::vector<double> had_ns_;
  std::int64_t now_ns_ = 0;
};

}  // namespace headgate::limiter::model
