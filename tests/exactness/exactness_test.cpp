#include <gtest/gtest.h>

#include <cmath>

#include "exactness/model.hpp"

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
  const std::int64_t windows = total / window;
  return std::sqrt(squares / static_cast<double>(windows));
}

Figures measure(const Setup& setup, std::int64_t total = 5 * kSecond) {
  Machine machine(setup);
  machine.run(total);
  const double asked = setup.ceiling_ppm / 1e4;
  Figures f{machine.held_percent(0, total) - asked, rms(machine, total, kSecond, asked),
            rms(machine, total, 100 * kMs, asked), machine.charged_percent() - machine.held_percent(0, total)};
  std::printf(
      "%5.0f %% %dp %2dt %2ds  bias %+7.3f  1s %6.3f  100ms %6.3f  charged-truth %+6.3f  est %5.3f  rec/l %.3f q/br "
      "%.2f wait/l %.2f ahead %.2f ms\n",
      asked, setup.processes, setup.threads, setup.streams, f.bias, f.rms_1s, f.rms_100ms, f.charged,
      machine.estimated_part(),
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

constexpr std::uint32_t kShares[] = {50'000, 100'000, 250'000, 500'000, 750'000, 950'000};

// What is asked and not always reached (docs/decisions/catch-up-window.md has the figures): a miss is printed as one.
void expect_near(const Setup& setup, double points) {
  const Figures f = measure(setup);
  if (std::abs(f.bias) > 0.1 || f.rms_1s > 0.2 || f.rms_100ms > 1.0) std::printf("        MISS\n");
  EXPECT_LE(std::abs(f.bias), points);
}

KernelMix every_fourth_is_5_ms() {
  return [](std::mt19937_64& random) { return Kernel{1, random() % 4 == 0 ? 5 * kMs : 20 * kUs}; };
}
KernelMix one_function_with_a_long_tail() {
  return [](std::mt19937_64& random) {
    const double gauss = std::normal_distribution<double>()(random);
    return Kernel{1, std::max<std::int64_t>(5 * kUs, static_cast<std::int64_t>(200'000 * std::exp(gauss)))};
  };
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
TEST(Exactness, a_share_of_one_kernel_whose_length_varies_gets_what_it_was_given) {
  for (const std::uint32_t ppm : {250'000u, 500'000u, 750'000u, 950'000u})
    expect_exact({.ceiling_ppm = ppm, .mix = one_function_with_a_long_tail()});
}
TEST(Exactness, a_share_of_20_us_and_5_ms_kernels_of_one_name_stays_within_half_a_point) {
  for (const std::uint32_t ppm : {250'000u, 500'000u, 750'000u, 950'000u})
    expect_near({.ceiling_ppm = ppm, .mix = every_fourth_is_5_ms()}, 0.5);
}

TEST(Exactness, a_share_is_not_multiplied_by_its_streams) {
  for (const int streams : {4, 32})
    for (const std::uint32_t ppm : kShares)
      for (const auto& mix : {constant(20 * kUs), constant(200 * kUs), constant(kMs), lognormal()})
        expect_exact({.ceiling_ppm = ppm, .mix = mix, .streams = streams});
}
TEST(Exactness, a_share_is_not_multiplied_by_kernels_that_run_side_by_side) {
  for (const int streams : {4, 32})
    expect_exact({.ceiling_ppm = 500'000, .mix = constant(200 * kUs), .streams = streams, .sms = 16});
}
TEST(Exactness, a_share_is_not_multiplied_by_its_processes) {
  for (const int processes : {2, 3, 4, 5, 6, 7, 8})
    for (const std::uint32_t ppm : kShares)
      for (const auto& mix : {constant(20 * kUs), constant(200 * kUs), constant(kMs), lognormal()}) {
        const model::Setup setup{.ceiling_ppm = ppm, .mix = mix, .processes = processes};
        // The clocks of many processes on a GPU that never rests take a second to agree to the last half microsecond.
        if (ppm == 950'000 && processes >= 4) expect_near(setup, 0.5);
        else expect_exact(setup);
      }
}
TEST(Exactness, a_share_is_not_multiplied_by_its_threads) {
  for (const std::uint32_t ppm : kShares)
    for (const auto& mix : {constant(20 * kUs), constant(200 * kUs), lognormal()})
      expect_exact({.ceiling_ppm = ppm, .mix = mix, .threads = 64, .streams = 64});
}
TEST(Exactness, a_loaded_machine_costs_a_share_no_time_at_half_a_gpu) {
  for (const std::uint32_t ppm : {50'000u, 100'000u, 250'000u, 500'000u})
    for (const auto& mix : {constant(20 * kUs), constant(200 * kUs), constant(kMs)}) {
      const Figures f = measure({.ceiling_ppm = ppm, .mix = mix, .lateness = stalling_lateness()});
      EXPECT_LE(std::abs(f.bias), 0.1);
      EXPECT_LE(f.rms_1s, 0.2);
    }
}
TEST(Exactness, a_loaded_machine_costs_a_large_share_of_even_kernels_at_most_two_points_and_a_mix_six) {
  for (const std::uint32_t ppm : {750'000u, 950'000u})
    for (const auto& mix : {constant(20 * kUs), constant(200 * kUs), constant(kMs)})
      expect_near({.ceiling_ppm = ppm, .mix = mix, .lateness = stalling_lateness()}, 2.0);
  for (const std::uint32_t ppm : kShares)
    expect_near({.ceiling_ppm = ppm, .mix = lognormal(), .lateness = stalling_lateness()}, 6.0);
}
TEST(Exactness, what_is_charged_follows_the_truth_at_every_instant) {
  for (const std::uint32_t ppm : {50'000u, 500'000u, 950'000u})
    for (const auto& mix : {constant(20 * kUs), constant(200 * kUs), constant(kMs)}) {
      Machine machine({.ceiling_ppm = ppm, .mix = mix});
      for (std::int64_t at = 100 * kMs; at <= kSecond; at += 7'300 * kUs) {
        machine.run(at);
        const std::int64_t truth = machine.truth_ns();
        const auto measured = static_cast<std::int64_t>(machine.account.held_ns.load());
        const auto estimated = static_cast<std::int64_t>(machine.account.estimated_ns.load());
        ASSERT_GE(machine.charged_ns(), truth - kQuantumNs) << ppm << " at " << at;
        ASSERT_LE(measured - truth, kQuantumNs + estimated) << ppm << " at " << at;
      }
    }
}
TEST(Exactness, dense_brackets_cost_at_most_one_and_a_half_queries) {
  for (const std::uint32_t ppm : kShares) {
    Machine machine({.ceiling_ppm = ppm, .mix = constant(20 * kUs)});
    machine.run(2 * kSecond);
    EXPECT_LE(static_cast<double>(machine.counts.queries), 1.5 * static_cast<double>(machine.counts.records) / 2)
        << ppm;
  }
}
TEST(Exactness, sixty_four_threads_do_not_send_more_ahead_than_one) {
  for (const std::uint32_t ppm : kShares)
    for (const auto& mix : {constant(20 * kUs), constant(200 * kUs), constant(kMs)}) {
      Machine machine({.ceiling_ppm = ppm, .mix = mix, .threads = 64, .streams = 64});
      machine.run(kSecond);
      EXPECT_LE(machine.most_ahead_ns, kLeadNs) << ppm;
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
    std::printf("change, %ld us kernels: 80 %% -> %.3f, 20 %% -> %.3f\n", static_cast<long>(kernel / kUs), sum[0] / 25,
                sum[1] / 25);
    EXPECT_NEAR(sum[0] / 25, 80.0, 1.0);
    EXPECT_NEAR(sum[1] / 25, 20.0, 1.0);
  }
}
TEST(Exactness, kernels_that_wait_for_each_other_meet_at_every_limit) {
  for (const int processes : {1, 2})
    for (std::uint32_t ppm = 50'000; ppm <= 1'000'000; ppm += 50'000) {
      Machine machine({.ceiling_ppm = ppm,
                       .mix = constant(200 * kUs),
                       .processes = processes,
                       .threads = 2,
                       .streams = 2,
                       .sms = 16,
                       .spin = true});
      machine.run(kSecond);
      EXPECT_TRUE(machine.met) << ppm << " ppm, " << processes << " processes, launches " << machine.counts.launches
                               << ", in debt " << machine.account.passed_in_debt.load();
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
