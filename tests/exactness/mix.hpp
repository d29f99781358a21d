// A mix of shares on a node, what happens to them, and whether the arbiter kept the product's rule over it (fluid.hpp).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exactness/fluid.hpp"
#include "exactness/node_model.hpp"

namespace headgate::limiter::model {

inline constexpr double kPoints = 0.5;
// By which an account may be off in any second: what no replay has reached at an end of the second is 18 ms old. Of
// 600 steady mixes four are off by more than 1 point, the worst by 1.24. Where processes of a share divide the GPU, 2.
inline constexpr double kAccountPoints = 1.25, kSharedAccountPoints = 2;

// What happens to a share at a time after the start.
struct Change {
  enum class Kind { kill, pause, resume, terms, restart };
  std::int64_t at_ns = 0;
  Kind kind = Kind::kill;
  std::size_t share = 0;
  // Of `terms`.
  std::uint32_t promise_ppm = 0, weight = 100, ceiling_ppm = ledger::kWholeGpu;
};

struct MixShare {
  std::uint32_t gpus = 1;  // as bits
  std::uint32_t promise_ppm = 0, weight = 100, ceiling_ppm = ledger::kWholeGpu;
  int processes = 1;  // on each GPU
  std::int64_t kernel_ns = 200'000;
  Load load{};  // its mix is made of kernel_ns
  // Where its processes on one of its GPUs do something else.
  std::uint32_t other_gpu = ~0u;
  std::int64_t other_kernel_ns = 0;
  Load other_load{};
};

struct Mix {
  std::vector<MixShare> shares{};
  std::vector<Change> changes{};  // in the order of their times
  std::uint32_t gpus = 1;
  std::int64_t from_ns = 2'000'000'000, until_ns = 12'000'000'000;  // what is judged
  std::uint64_t seed = 1;
  std::uint64_t slice_ns = 0, switch_ns = 0;  // NodeSetup's
  double points = kPoints;  // by how much a share may have less than is due, besides what kernels in flight are worth
  double account_points = kAccountPoints;
  double sum_points = 4;  // by how much the accounts of a GPU may add up to more than it in a second
};

// In the words of the command line, a line a share.
std::string describe(const Mix& mix);

struct Part {
  std::size_t share = 0;
  std::uint32_t gpu = 0;
  double had = 0, due = 0, account = 0;  // percent of the GPU
  double allowed = 0;                    // how far `had` may be below `due`
  bool judged = true;  // false: it pauses so shortly that what it wants depends on how soon it is served
};
struct Outcome {
  std::vector<Part> parts;
  std::vector<double> idle;         // percent of each GPU
  std::vector<std::string> broken;  // what of the rule does not hold; empty: all does
};

Outcome run(const Mix& mix);
std::string describe(const Mix& mix, const Outcome& outcome);

// A mix drawn at random; the same for the same seed.
Mix draw(std::uint64_t seed, bool wide);

// Smaller mixes that are broken as well, by leaving out what does not matter.
Mix shrink(Mix mix);

}  // namespace headgate::limiter::model
