#include <gtest/gtest.h>

#include <cmath>

#include "guest/limiter/compute/model.hpp"

namespace headgate::limiter::model {
namespace {

constexpr std::int64_t kUs = 1'000, kMs = 1'000'000, kSecond = 1'000'000'000;

struct Figures {
  double bias = 0, rms_1s = 0, rms_100ms = 0, charged = 0;
};

double rms(const Machine& machine, std::int64_t total, std::int64_t window, double asked) {
  double squares = 0;
  for (std::int64_t at = 0; at < total; at += window) {
    const double error = machine.held_percent(at, at + window) - asked;
    squares += error * error;
  }
  return std::sqrt(squares / static_cast<double>(total / window));
}

Figures measure(const Setup& setup, std::int64_t total = 5 * kSecond) {
  Machine machine(setup);
  machine.run(total);
  const double asked = setup.ceiling_ppm / 1e4;
  Figures f{machine.held_percent(0, total) - asked, rms(machine, total, kSecond, asked), rms(machine, total, 100 * kMs, asked),
            machine.charged_percent() - machine.held_percent(0, total)};
  std::printf("%5.0f %% %dp %2dt %2ds  bias %+7.3f  1s %6.3f  100ms %6.3f  charged-truth %+6.3f  est %5.3f  rec/l %.3f q/br %.2f wait/l %.2f ahead %.2f ms\n", asked,
              setup.processes, setup.threads, setup.streams, f.bias, f.rms_1s, f.rms_100ms, f.charged, machine.estimated_part(),
              static_cast<double>(machine.counts.records) / static_cast<double>(machine.counts.launches),
              2.0 * static_cast<double>(machine.counts.queries) / static_cast<double>(machine.counts.records),
              static_cast<double>(machine.counts.waits) / static_cast<double>(machine.counts.launches),
              static_cast<double>(machine.most_ahead_ns) / 1e6);
  EXPECT_EQ(machine.counts.settler_enqueues, 0u);
  return f;
}

void expect_exact(const Setup& setup) {
  const Figures f = measure(setup);
  EXPECT_LE(std::abs(f.bias), 0.1);
  EXPECT_LE(f.rms_1s, 0.2);
  EXPECT_LE(f.rms_100ms, 1.0);
}

constexpr std::uint32_t kShares[] = {50'000, 100'000, 250'000, 500'000};

// Not yet what is asked (docs/decisions/catch-up-window.md has the figures): held so that it does not get worse.
void expect_near(const Setup& setup, double points) { EXPECT_LE(std::abs(measure(setup).bias), points); }

TEST(Exactness, three_quarters_of_a_gpu_are_kept_over_a_second) {
  for (const auto& mix : {constant(20 * kUs), constant(200 * kUs), constant(kMs), lognormal()}) {
    const Figures f = measure({.ceiling_ppm = 750'000, .mix = mix});
    EXPECT_LE(std::abs(f.bias), 0.1);
    EXPECT_LE(f.rms_1s, 0.2);
  }
}
TEST(Exactness, a_share_of_20_us_kernels_gets_what_it_was_given) {
  for (const std::uint32_t ppm : kShares) expect_exact({.ceiling_ppm = ppm, .mix = constant(20 * kUs)});
}
TEST(Exactness, a_share_of_200_us_kernels_gets_what_it_was_given) {
  for (const std::uint32_t ppm : kShares) expect_exact({.ceiling_ppm = ppm, .mix = constant(200 * kUs)});
}
TEST(Exactness, a_share_of_1_ms_kernels_gets_what_it_was_given) {
  for (const std::uint32_t ppm : kShares) expect_exact({.ceiling_ppm = ppm, .mix = constant(kMs)});
}
TEST(Exactness, a_share_of_mixed_kernels_gets_what_it_was_given) {
  for (const std::uint32_t ppm : kShares) expect_exact({.ceiling_ppm = ppm, .mix = lognormal()});
}

TEST(Exactness, a_share_is_not_multiplied_by_its_streams) {
  for (const int streams : {4, 32})
    for (const std::uint32_t ppm : {50'000u, 500'000u})
      for (const auto& mix : {constant(20 * kUs), constant(200 * kUs), lognormal()})
        expect_exact({.ceiling_ppm = ppm, .mix = mix, .streams = streams});
}
TEST(Exactness, a_share_is_not_multiplied_by_kernels_that_run_side_by_side) {
  for (const int streams : {4, 32}) expect_exact({.ceiling_ppm = 500'000, .mix = constant(200 * kUs), .streams = streams, .sms = 16});
}
TEST(Exactness, a_share_is_not_multiplied_by_its_processes) {
  for (const int processes : {2, 4, 8})
    for (const std::uint32_t ppm : {250'000u, 500'000u, 750'000u})
      for (const auto& mix : {constant(200 * kUs), constant(kMs)})
        expect_exact({.ceiling_ppm = ppm, .mix = mix, .processes = processes});
}
TEST(Exactness, a_share_is_not_multiplied_by_its_threads) {
  for (const std::uint32_t ppm : {50'000u, 950'000u})
    expect_exact({.ceiling_ppm = ppm, .mix = constant(200 * kUs), .threads = 64, .streams = 64});
}
TEST(Exactness, processes_with_short_kernels_stay_within_a_point) {
  for (const int processes : {2, 4, 8})
    for (const std::uint32_t ppm : {250'000u, 500'000u, 750'000u})
      expect_near({.ceiling_ppm = ppm, .mix = constant(20 * kUs), .processes = processes}, 1.0);
}
TEST(Exactness, a_share_of_95_percent_stays_within_two_points_though_wake_ups_stall) {
  for (const int streams : {1, 4, 32})
    for (const auto& mix : {constant(20 * kUs), constant(200 * kUs), constant(kMs), lognormal()})
      expect_near({.ceiling_ppm = 950'000, .mix = mix, .streams = streams}, 2.0);
}
TEST(Exactness, a_loaded_machine_costs_a_share_no_time_at_half_a_gpu) {
  for (const auto& mix : {constant(20 * kUs), constant(200 * kUs), constant(kMs)}) {
    const Figures f = measure({.ceiling_ppm = 500'000, .mix = mix, .lateness = stalling_lateness()});
    EXPECT_LE(std::abs(f.bias), 0.1);
    EXPECT_LE(f.rms_1s, 0.2);
  }
}
TEST(Exactness, a_changed_limit_holds_after_20_ms) {
  for (const std::int64_t kernel : {20 * kUs, 200 * kUs}) {
    Machine machine({.ceiling_ppm = 200'000, .mix = constant(kernel)});
    std::int64_t at = 200 * kMs;
    machine.run(at);
    double sum[2] = {};
    for (int change = 0; change < 50; ++change) {
      machine.ceiling_ppm = change % 2 == 0 ? 800'000 : 200'000;
      machine.run(at + 120 * kMs);
      sum[change % 2] += machine.held_percent(at + 20 * kMs, at + 120 * kMs);
      at += 120 * kMs;
    }
    std::printf("change, %ld us kernels: 80 %% -> %.3f, 20 %% -> %.3f\n", static_cast<long>(kernel / kUs), sum[0] / 25, sum[1] / 25);
    EXPECT_NEAR(sum[0] / 25, 80.0, 1.0);
    EXPECT_NEAR(sum[1] / 25, 20.0, 1.0);
  }
}
TEST(Exactness, kernels_that_wait_for_each_other_meet_at_every_limit) {
  for (std::uint32_t ppm = 50'000; ppm <= 950'000; ppm += 50'000) {
    Machine machine({.ceiling_ppm = ppm, .mix = constant(200 * kUs), .threads = 2, .streams = 2, .sms = 16, .spin = true});
    machine.run(kSecond);
    EXPECT_TRUE(machine.met) << ppm << " ppm, launches " << machine.counts.launches << ", in debt " << machine.account.passed_in_debt.load();
  }
}
TEST(Exactness, launch_bound_kernels_of_3_us_are_estimated_within_two_points) {
  for (const std::uint32_t ppm : {50'000u, 250'000u, 500'000u}) {
    const Figures f = measure({.ceiling_ppm = ppm, .mix = constant(3 * kUs), .launch_every_ns = 5 * kUs});
    EXPECT_LE(std::abs(f.bias), 2.0);
  }
}

}  // namespace
}  // namespace headgate::limiter::model
