// Several shares on one GPU without an arbiter: each is held to its own ceiling, whatever the others do.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "exactness/model.hpp"

namespace headgate::limiter::model {
namespace {

constexpr std::int64_t kUs = 1'000, kMs = 1'000'000, kSecond = 1'000'000'000;

void expect_each_within(const Setup& setup, double points) {
  Machine machine(setup);
  machine.run(5 * kSecond);
  std::vector<std::uint32_t> asked{setup.ceiling_ppm};
  for (const Neighbour& neighbour : setup.beside) asked.push_back(neighbour.ceiling_ppm);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const double got = machine.process_percent(static_cast<int>(i));
    const ledger::ComputeAccount& account = i == 0 ? machine.account : *machine.neighbours[i - 1];
    std::printf("asked %4.1f got %6.3f charged %6.3f given back %5.2f\n", asked[i] / 1e4, got,
                static_cast<double>(account.held_ns.load()) / 1e7 / 5,
                static_cast<double>(account.neighbours_ns.load()) / 1e7 / 5);
    EXPECT_NEAR(got, asked[i] / 1e4, points);
  }
  std::printf("\n");
}

TEST(Neighbours, TwoSharesOfEqualKernelsGetTheirLimits) {
  for (const std::int64_t us : {20, 200, 1'000, 5'000})
    expect_each_within({.ceiling_ppm = 250'000, .mix = constant(us * kUs), .beside = {{500'000, constant(us * kUs)}}},
                       0.5);
}
TEST(Neighbours, ShortKernelsBesideLongOnesGetTheirLimits) {
  expect_each_within({.ceiling_ppm = 250'000, .mix = constant(20 * kUs), .beside = {{500'000, constant(5 * kMs)}}},
                     0.5);
  expect_each_within({.ceiling_ppm = 500'000, .mix = constant(20 * kUs), .beside = {{250'000, constant(5 * kMs)}}},
                     0.5);
  expect_each_within({.ceiling_ppm = 250'000, .mix = constant(200 * kUs), .beside = {{500'000, lognormal()}}}, 0.5);
}
TEST(Neighbours, FourSharesGetTheirLimits) {
  expect_each_within({.ceiling_ppm = 100'000,
                      .mix = constant(200 * kUs),
                      .beside = {{200'000, lognormal()}, {300'000, constant(kMs)}, {300'000, constant(20 * kUs)}}},
                     0.5);
}

// Demand exceeds the GPU's time: the GPU's time slices decide, and each share is charged what it held.
TEST(Neighbours, SharesAboveTheGpuAreChargedWhatTheyGet) {
  Machine machine({.ceiling_ppm = 600'000, .mix = constant(200 * kUs), .beside = {{600'000, constant(kMs)}}});
  machine.run(5 * kSecond);
  EXPECT_NEAR(static_cast<double>(machine.account.held_ns.load()) / 5e7, machine.process_percent(0), 0.5);
  EXPECT_NEAR(static_cast<double>(machine.neighbours[0]->held_ns.load()) / 5e7, machine.process_percent(1), 0.5);
}

// A share gets its burst while alone, and its ceiling next to others, repeatedly.
TEST(Burst, AnotherSharesWorkEndsABurstWithin100Ms) {
  for (const std::int64_t us : {20, 200, 5'000}) {
    for (const std::int64_t theirs_us : {20, 5'000, 30'000}) {
      model::Setup setup{.ceiling_ppm = 300'000,
                         .mix = constant(us * kUs),
                         .beside = {{400'000, constant(theirs_us * kUs), 0, 2 * kSecond, 4 * kSecond}}};
      const double without = Machine(setup).process_percent_until(0, 2'100 * kMs, 4 * kSecond);
      setup.burst_ppm = 800'000;
      Machine machine(setup);
      const double alone = machine.process_percent_until(0, 200 * kMs, 2 * kSecond);
      const double beside = machine.process_percent_until(0, 2'100 * kMs, 4 * kSecond);
      const double again = machine.process_percent_until(0, 5'200 * kMs, 6 * kSecond);
      std::printf("%5ld us beside %5ld us: alone %.2f, beside %.2f (without a burst %.2f), alone again %.2f\n",
                  static_cast<long>(us), static_cast<long>(theirs_us), alone, beside, without, again);
      EXPECT_NEAR(alone, 80.0, 0.5);
      EXPECT_NEAR(beside, without, 1.0);
      EXPECT_LE(beside, 31.0);
      EXPECT_NEAR(again, 80.0, 1.0);
    }
  }
}
TEST(Burst, AShareDoesNotTakeItsOwnProcessesForOthers) {
  Machine machine({.ceiling_ppm = 300'000, .mix = constant(200 * kUs), .processes = 3, .burst_ppm = 800'000});
  machine.run(3 * kSecond);
  EXPECT_NEAR(machine.held_percent(200 * kMs, 3 * kSecond), 80.0, 0.5);
}
TEST(Burst, TwoBurstingSharesHoldEachOtherToTheirCeilings) {
  Machine machine({.ceiling_ppm = 300'000,
                   .mix = constant(200 * kUs),
                   .burst_ppm = 1'000'000,
                   .beside = {{400'000, constant(kMs), 1'000'000}}});
  machine.run(100 * kMs);
  EXPECT_NEAR(machine.process_percent_until(0, 100 * kMs, 3 * kSecond), 30.0, 1.0);
  EXPECT_NEAR(machine.process_percent_until(1, 3 * kSecond, 4 * kSecond), 40.0, 1.0);
}

}  // namespace
}  // namespace headgate::limiter::model
