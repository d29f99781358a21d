// A mix of shares on a node with changes over time, and a check if the arbiter kept the product's rule (fluid.hpp).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exactness/fluid.hpp"
#include "exactness/node_model.hpp"

namespace headgate::limiter::model {

inline constexpr double kPoints = 0.5;
// By which an account may be off in any second. Kernels longer than 20 ms have slices of the GPU beside all turns, and in
// which order slices go round is a guess.
inline constexpr double kAccountPoints = 1, kSlicedAccountPoints = 4;

// A change to a share at a time after the start.
struct Change {
  enum class Kind { kill, pause, resume, terms, restart };
  std::int64_t at_ns = 0;
  Kind kind = Kind::kill;
  std::size_t share = 0;
  // Used by `terms`.
  std::uint32_t promise_ppm = 0, weight = 100, ceiling_ppm = ledger::kWholeGpu;
};

struct MixShare {
  std::uint32_t gpus = 1;  // bit mask
  std::uint32_t promise_ppm = 0, weight = 100, ceiling_ppm = ledger::kWholeGpu;
  int processes = 1;  // per GPU
  std::int64_t kernel_ns = 200'000;
  Load load{};  // its mix is ignored; kernel_ns is used
  // Different behaviour of its processes on one of its GPUs.
  std::uint32_t other_gpu = ~0u;
  std::int64_t other_kernel_ns = 0;
  Load other_load{};
};

struct Mix {
  std::vector<MixShare> shares{};
  std::vector<Change> changes{};  // in order of time
  std::uint32_t gpus = 1;
  std::int64_t from_ns = 2'000'000'000, until_ns = 12'000'000'000;  // the judged interval
  std::uint64_t seed = 1;
  std::uint64_t slice_ns = 0, switch_ns = 0;  // see NodeSetup
  double points = kPoints;                    // allowed shortfall of a share, in addition to kernels in flight
  double account_points = kAccountPoints;
  double sum_points = 1;  // by how much a GPU's accounts together may be too large in a second
};

// Describes the mix as command line options, one line per share.
std::string describe(const Mix& mix);

struct Part {
  std::size_t share = 0;
  std::uint32_t gpu = 0;
  double had = 0, due = 0, account = 0;  // percent of the GPU
  double allowed = 0;                    // allowed shortfall of `had` below `due`
  bool judged = true;  // false: its pauses are so short that its demand depends on how soon it is served
};
struct Outcome {
  std::vector<Part> parts;
  std::vector<double> idle;         // percent of each GPU
  std::vector<std::string> broken;  // violations of the rule; empty if none
};

Outcome run(const Mix& mix);
std::string describe(const Mix& mix, const Outcome& outcome);

// Draws a random mix, always the same for a seed.
Mix draw(std::uint64_t seed, bool wide);
// Two to four shares that always have work, of up to eight processes and four streams, on one or two GPUs.
Mix draw_several(std::uint64_t seed);

// Reduces a broken mix to a smaller one that is still broken.
Mix shrink(Mix mix);

}  // namespace headgate::limiter::model
