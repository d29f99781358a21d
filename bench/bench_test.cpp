#include <gtest/gtest.h>

#include "noise.hpp"
#include "split.hpp"

namespace headgate::bench {
namespace {

constexpr std::int64_t kBucket = 10'000'000;

std::vector<Bucket> constant(std::size_t count, Bucket bucket) { return std::vector<Bucket>(count, bucket); }

TEST(Split, an_exact_share_has_no_error) {
  const Accuracy result = accuracy(constant(100, {.held_ns = 2'500'000}), kBucket, 10, 0.25);
  EXPECT_EQ(result.windows, 10u);
  EXPECT_NEAR(result.bias, 0, 1e-9);
  EXPECT_NEAR(result.rms, 0, 1e-9);
}

TEST(Split, a_surplus_is_always_the_gates_fault) {
  const Accuracy result =
      accuracy(constant(100, {.held_ns = 3'000'000, .idle_ns = 10'000'000, .late_ns = 10'000'000}), kBucket, 10, 0.25);
  EXPECT_NEAR(result.wrong_bias, 5, 1e-9);
  EXPECT_NEAR(result.wrong_rms, 5, 1e-9);
}

TEST(Split, a_shortfall_is_excused_only_as_far_as_the_client_was_away) {
  // 25 % asked, 20 % got, the client away for a tenth of the time: 2.5 points are its own, 2.5 the gate's.
  const Accuracy result = accuracy(constant(100, {.held_ns = 2'000'000, .idle_ns = 1'000'000}), kBucket, 10, 0.25);
  EXPECT_NEAR(result.bias, -5, 1e-9);
  EXPECT_NEAR(result.wrong_bias, -2.5, 1e-9);
}

TEST(Split, an_absent_client_excuses_no_more_than_the_shortfall) {
  const Accuracy result = accuracy(constant(10, {.held_ns = 2'400'000, .idle_ns = 10'000'000}), kBucket, 10, 0.25);
  EXPECT_NEAR(result.wrong_bias, 0, 1e-9);
}

TEST(Split, errors_that_cancel_over_time_still_show_in_the_short_windows) {
  std::vector<Bucket> buckets;
  for (int i = 0; i < 100; ++i) {
    buckets.push_back({.held_ns = i % 20 < 10 ? 5'000'000 : 0});
  }
  EXPECT_NEAR(accuracy(buckets, kBucket, 100, 0.25).rms, 0, 1e-9);
  EXPECT_NEAR(accuracy(buckets, kBucket, 10, 0.25).rms, 25, 1e-9);
  EXPECT_NEAR(accuracy(buckets, kBucket, 10, 0.25).bias, 0, 1e-9);
}

TEST(Noise, steal_is_told_from_the_difference_of_two_readings) {
  const CpuParts parts = cpu_parts("cpu  100 0 100 800 0 0 0 0 0 0", "cpu  150 0 120 900 10 0 0 20 0 0");
  EXPECT_NEAR(parts.steal_percent, 10, 1e-9);
  EXPECT_NEAR(parts.busy_percent, 45, 1e-9);
}

TEST(Noise, a_machine_without_proc_says_so_instead_of_zero) {
  EXPECT_EQ(cpu_parts("", "").steal_percent, -1);
  EXPECT_EQ(cpu_parts("cpu 1 2", "cpu 1 2").busy_percent, -1);
}

TEST(Noise, the_sampler_counts_a_wake_up_for_nearly_each_millisecond) {
  NoiseSampler sampler;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (sampler.late().ns.size() < 5 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const Noise noise = sampler.stop();
  EXPECT_GT(noise.lateness_ns.count(), 0u);
  EXPECT_GE(noise.lateness_ns.max_ns(), noise.lateness_ns.percentile_ns(0.5));
}

}  // namespace
}  // namespace headgate::bench
