// While no daemon runs, each share has the part of the GPU that the daemon left to it, in a span of each cycle.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <random>
#include <vector>

#include "exactness/node_model.hpp"

namespace headgate::limiter::model {
namespace {

constexpr std::int64_t kUs = 1'000, kMs = 1'000'000, kSecond = 1'000'000'000;
constexpr double kPartPoints = 0.5;  // and one kernel in flight of each process that is longer than 20 ms

struct Without {
  std::uint32_t percent;  // its part
  std::int64_t kernel_ns;
  int processes = 1;
  bool plain = false;  // its ceiling is its part
};

// When the daemon ends, whichever share has the GPU then: what was measured last differs.
constexpr std::array kGoneNs{9'285 * kMs, 9'627 * kMs};
constexpr std::int64_t kJudgedFromNs = 12 * kSecond;

// Each share always has work. Judged over 10 s, with kernels of 100 ms over 20.
void expect_parts(const std::vector<Without>& shares, std::int64_t gone_ns) {
  NodeSetup setup{.shares = {}};
  std::vector<std::uint32_t> parts_ppm;
  std::int64_t longest_ns = 0;
  for (const Without& share : shares) {
    parts_ppm.push_back(share.percent * 10'000);
    setup.shares.push_back({.gpus = {{.gpu = 0, .weight = 100, .guarantee_ppm = parts_ppm.back()}},
                            .load = {.mix = constant(share.kernel_ns)},
                            .processes = share.processes,
                            .ceiling_ppm = share.plain ? parts_ppm.back() : ledger::kWholeGpu});
    longest_ns = std::max(longest_ns, share.kernel_ns);
  }
  Node node(setup);
  node.run(gone_ns);
  node.end_daemon(parts_ppm);
  node.run(kJudgedFromNs);
  node.mark();
  const std::int64_t judged_ns = (longest_ns >= 100 * kMs ? 20 : 10) * kSecond;
  node.run(kJudgedFromNs + judged_ns);
  for (std::size_t i = 0; i < shares.size(); ++i)
    std::printf(" %u%% of %d x %g ms: %.2f", shares[i].percent, shares[i].processes,
                static_cast<double>(shares[i].kernel_ns) / 1e6, node.held_percent(i));
  std::printf("; idle %.2f\n", 100 - node.used_percent());
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const bool is_long = shares[i].kernel_ns > 20 * kMs;
    const double in_flight = 100.0 * shares[i].processes * static_cast<double>(shares[i].kernel_ns);
    EXPECT_NEAR(node.held_percent(i), shares[i].percent,
                kPartPoints + (is_long ? in_flight / static_cast<double>(judged_ns) : 0));
  }
}

void expect_parts(const std::vector<Without>& shares) {
  for (const std::int64_t gone_ns : kGoneNs) expect_parts(shares, gone_ns);
}

TEST(DaemonGone, PartsHold) {
  for (const std::int64_t ns : {20 * kUs, 200 * kUs, kMs, 5 * kMs}) {
    expect_parts({{50, ns}, {25, ns}, {25, ns}});
    expect_parts({{70, ns}, {30, kMs}});
    expect_parts({{50, ns, 1, true}, {50, ns}});
    expect_parts({{10, ns}, {90, ns}});
  }
}

TEST(DaemonGone, PartsOfLongKernelsHold) {
  for (const std::int64_t ns : {kMs, 5 * kMs, 10 * kMs, 30 * kMs, 100 * kMs}) {
    expect_parts({{80, ns}, {20, ns}});
    expect_parts({{50, ns}, {50, ns}});
    expect_parts({{50, ns}, {25, ns}, {25, ns}});
  }
}

// Kernels that divide no span, or that are much longer than the others'.
TEST(DaemonGone, PartsOfMixedLengthsHold) {
  expect_parts({{60, 7 * kMs}, {40, 3 * kMs}});
  expect_parts({{95, 20 * kMs}, {5, kMs}});
  expect_parts({{95, kMs}, {5, 20 * kMs}});
  for (const auto& [a, b] : {std::pair{kMs, 30 * kMs}, {200 * kUs, 100 * kMs}}) {
    expect_parts({{80, a}, {20, b}});
    expect_parts({{50, a}, {50, b}});
    expect_parts({{20, a}, {80, b}});
    expect_parts({{50, a}, {25, b}, {25, a}});
  }
}

// Its processes had the GPU beside each other until the daemon ended: by what the marks of that time tell, each kernel
// counts as long as it takes alone.
TEST(DaemonGone, PartsOfSeveralProcessesHold) {
  for (const std::int64_t ns : {20 * kUs, 200 * kUs, kMs, 5 * kMs, 10 * kMs, 30 * kMs}) {
    expect_parts({{50, ns, 4}, {50, kMs}});
    expect_parts({{80, ns, 4}, {20, ns, 2}});
    expect_parts({{50, ns, 2}, {50, ns, 2}});
  }
}

// Two to four shares that divide the whole GPU, and when the daemon ends.
void expect_drawn(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&random](unsigned from, unsigned to) {
    return from + static_cast<unsigned>(random() % (to - from + 1));
  };
  constexpr std::array kLengthsNs{20 * kUs, 50 * kUs, 200 * kUs, 500 * kUs, kMs,
                                  2 * kMs,  5 * kMs,  10 * kMs,  20 * kMs,  30 * kMs};
  const unsigned count = pick(2, 4);
  std::vector<Without> shares;
  unsigned left = 100;
  for (unsigned i = 0; i < count; ++i) {
    const unsigned part = i == count - 1 ? left : pick(5, left - 5 * (count - 1 - i));
    left -= part;
    Without& share = shares.emplace_back(Without{.percent = part, .kernel_ns = kLengthsNs[pick(0, 9)]});
    if (pick(0, 2) == 0) share.processes = static_cast<int>(pick(2, 4));
    share.plain = pick(0, 1) == 1;
  }
  std::printf("seed %u:", seed);
  expect_parts(shares, std::int64_t{pick(9'000, 11'000)} * kMs);
}

// Of seeds 1 to 200, 7 do not hold (docs/decisions/arbiter.md): 55, 63, 110, 133, 137, 153, 184. 28, 60, 69, 124, 138 and
// 170 broke for reasons that the first 24 do not have.
TEST(DaemonGone, PartsOfMixesDrawnAtRandomHold) {
  for (unsigned seed = 1; seed <= 24; ++seed) expect_drawn(seed);
  for (const unsigned seed : {28u, 60u, 69u, 124u, 138u, 170u}) expect_drawn(seed);
}

}  // namespace
}  // namespace headgate::limiter::model
