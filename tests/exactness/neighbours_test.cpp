// Several shares on one GPU, with nobody who arbitrates: each is held to its own ceiling, whatever the others do.
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

TEST(Neighbours, two_shares_of_like_kernels_each_get_what_they_were_given) {
  for (const std::int64_t us : {20, 200, 1'000, 5'000})
    expect_each_within({.ceiling_ppm = 250'000, .mix = constant(us * kUs), .beside = {{500'000, constant(us * kUs)}}},
                       0.5);
}
TEST(Neighbours, short_kernels_beside_long_ones_each_get_what_they_were_given) {
  expect_each_within({.ceiling_ppm = 250'000, .mix = constant(20 * kUs), .beside = {{500'000, constant(5 * kMs)}}},
                     0.5);
  expect_each_within({.ceiling_ppm = 500'000, .mix = constant(20 * kUs), .beside = {{250'000, constant(5 * kMs)}}},
                     0.5);
  expect_each_within({.ceiling_ppm = 250'000, .mix = constant(200 * kUs), .beside = {{500'000, lognormal()}}}, 0.5);
}
TEST(Neighbours, four_shares_each_get_what_they_were_given) {
  expect_each_within({.ceiling_ppm = 100'000,
                      .mix = constant(200 * kUs),
                      .beside = {{200'000, lognormal()}, {300'000, constant(kMs)}, {300'000, constant(20 * kUs)}}},
                     0.5);
}

// More is asked for than there is: the GPU's own time slices decide, and each is charged what it held.
TEST(Neighbours, shares_that_ask_for_more_than_there_is_are_charged_what_they_get) {
  Machine machine({.ceiling_ppm = 600'000, .mix = constant(200 * kUs), .beside = {{600'000, constant(kMs)}}});
  machine.run(5 * kSecond);
  EXPECT_NEAR(static_cast<double>(machine.account.held_ns.load()) / 5e7, machine.process_percent(0), 0.5);
  EXPECT_NEAR(static_cast<double>(machine.neighbours[0]->held_ns.load()) / 5e7, machine.process_percent(1), 0.5);
}

}  // namespace
}  // namespace headgate::limiter::model
