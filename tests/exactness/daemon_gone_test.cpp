// While no daemon runs, each share has the part of the GPU that the daemon left to it, in a span of each cycle.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
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

constexpr std::int64_t kGoneNs = 10'030 * kMs, kJudgedFromNs = 12 * kSecond;

// Each share always has work. The daemon ends after 10.03 s, whichever share has the GPU then. Judged over 10 s, with
// kernels of 100 ms over 20. miss: of rows that do not hold, what they have more or less than that.
void expect_parts(const std::vector<Without>& shares, double miss = 0) {
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
  node.run(kGoneNs);
  node.end_daemon(parts_ppm);
  node.run(kJudgedFromNs);
  node.mark();
  const std::int64_t judged_ns = (longest_ns >= 100 * kMs ? 20 : 10) * kSecond;
  node.run(kJudgedFromNs + judged_ns);
  for (std::size_t i = 0; i < shares.size(); ++i)
    std::printf(" %u%% of %d x %g ms: %.2f", shares[i].percent, shares[i].processes,
                static_cast<double>(shares[i].kernel_ns) / 1e6, node.held_percent(i));
  std::printf("; idle %.2f%s\n", 100 - node.used_percent(), miss != 0 ? "; a miss" : "");
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const bool is_long = shares[i].kernel_ns > 20 * kMs;
    const double in_flight = 100.0 * shares[i].processes * static_cast<double>(shares[i].kernel_ns);
    EXPECT_NEAR(node.held_percent(i), shares[i].percent,
                kPartPoints + miss + (is_long ? in_flight / static_cast<double>(judged_ns) : 0));
  }
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
    expect_parts({{80, ns, 4}, {20, ns, 2}}, ns == 5 * kMs ? 0.2 : 0);
    expect_parts({{50, ns, 2}, {50, ns, 2}});
  }
}

}  // namespace
}  // namespace headgate::limiter::model
