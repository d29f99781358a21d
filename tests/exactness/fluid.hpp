// The rule of the product as a fluid: what each share of one GPU should have, computed without a scheduler.
//
// At every instant a share that has work gets min(its promise, its ceiling); what is left goes to those that have work,
// by weight, up to their ceilings (water-filling). Generalised processor sharing (Parekh and Gallager 1993) with
// reservations and limits. Work is served as if it could be divided at will, so a real schedule differs by what is in
// flight.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace headgate::limiter::model {

// All as parts of the GPU's time, 0..1.
struct Claim {
  double promise = 0;
  double weight = 1;
  double ceiling = 1;
};

// What each claim gets; `wants` says which claims have work. Promises of those that want must not add up to more than
// 1.
std::vector<double> fair_parts(std::span<const Claim> claims, const std::vector<bool>& wants);

// What one process of a share asks for: `work_ns` of GPU time, then once that is done a pause of `gap_ns`, or the next
// every `every_ns`, at once where that is past. work_ns 0: all there is.
struct Demand {
  std::int64_t work_ns = 0, gap_ns = 0, every_ns = 0;
  std::int64_t from_ns = 0, until_ns = INT64_MAX;
};

struct FluidShare {
  Claim claim;
  std::vector<Demand> processes{};
  bool paused = false;
};

// One GPU from time 0 on. Changes take effect at the time that it was run to.
class Fluid {
 public:
  explicit Fluid(std::vector<FluidShare> shares);
  void run(std::int64_t until_ns);
  FluidShare& share(std::size_t index) { return shares_[index]; }
  void end_process(std::size_t share);  // the first that is left
  double had_ns(std::size_t share) const { return had_ns_[share]; }

 private:
  struct Progress {
    bool ended = false;
    double left_ns = 0;       // of the work asked for; with work_ns 0 it does not count
    std::int64_t due_ns = 0;  // when it asks for the next
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
