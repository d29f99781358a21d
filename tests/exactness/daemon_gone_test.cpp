// While no daemon runs, each share has the part of the GPU that the daemon left to it, in a span of each cycle.
#include <gtest/gtest.h>

#include <cstdio>
#include <vector>

#include "exactness/node_model.hpp"

namespace headgate::limiter::model {
namespace {

constexpr std::int64_t kUs = 1'000, kMs = 1'000'000, kSecond = 1'000'000'000;

struct Without {
  std::uint32_t percent;  // its part
  std::int64_t kernel_ns;
  int processes = 1;
  bool plain = false;  // its ceiling is its part
};

// Each share always has work. The daemon ends after 2.03 s, whichever share has the GPU then.
void expect_parts(const std::vector<Without>& shares, double points) {
  NodeSetup setup{.shares = {}};
  std::vector<std::uint32_t> parts_ppm;
  for (const Without& share : shares) {
    parts_ppm.push_back(share.percent * 10'000);
    setup.shares.push_back({.gpus = {{.gpu = 0, .weight = 100, .guarantee_ppm = parts_ppm.back()}},
                            .load = {.mix = constant(share.kernel_ns)},
                            .processes = share.processes,
                            .ceiling_ppm = share.plain ? parts_ppm.back() : ledger::kWholeGpu});
  }
  Node node(setup);
  node.run(2'030 * kMs);
  node.end_daemon(parts_ppm);
  node.run(3 * kSecond);
  node.mark();
  node.run(13 * kSecond);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    std::printf(" %2u %% of %5ld us: %.2f", shares[i].percent, static_cast<long>(shares[i].kernel_ns / kUs),
                node.held_percent(i));
    EXPECT_NEAR(node.held_percent(i), shares[i].percent, points);
  }
  std::printf("\n");
}

TEST(DaemonGone, PartsHold) {
  for (const std::int64_t ns : {20 * kUs, 200 * kUs, kMs, 5 * kMs}) {
    expect_parts({{50, ns}, {25, ns}, {25, ns}}, 0.5);
    expect_parts({{70, ns}, {30, kMs}}, 0.5);
    // Each process leaves a kernel at the end of the share's span, in the span of the next share.
    expect_parts({{50, ns, 4}, {50, kMs}}, 2.5);
    // The price at a ceiling leaves no room for what others had of its span.
    expect_parts({{50, ns, 1, true}, {50, ns}}, ns < kMs ? 0.5 : ns == kMs ? 1 : 3);
    // Two kernels of 5 ms fill the span of 10 ms only if they begin at its start.
    expect_parts({{10, ns}, {90, ns}}, ns < 5 * kMs ? 0.5 : 1.5);
  }
  // Kernels that divide no span, or are longer than one.
  expect_parts({{60, 7 * kMs}, {40, 3 * kMs}}, 2.5);
  expect_parts({{95, 20 * kMs}, {5, kMs}}, 2);
  expect_parts({{80, 30 * kMs}, {20, 30 * kMs}}, 10);
}

}  // namespace
}  // namespace headgate::limiter::model
