#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "noise.hpp"
#include "setting.hpp"
#include "split.hpp"

namespace headgate::bench {
namespace {

constexpr std::int64_t kBucket = 10'000'000;

std::vector<Bucket> constant(std::size_t count, Bucket bucket) { return std::vector<Bucket>(count, bucket); }

TEST(Split, AnExactShareHasNoError) {
  const Accuracy result = accuracy(constant(100, {.held_ns = 2'500'000}), kBucket, 10, 0.25);
  EXPECT_EQ(result.windows, 10u);
  EXPECT_NEAR(result.bias, 0, 1e-9);
  EXPECT_NEAR(result.rms, 0, 1e-9);
}

TEST(Split, ASurplusCountsAgainstTheGate) {
  const Accuracy result =
      accuracy(constant(100, {.held_ns = 3'000'000, .idle_ns = 10'000'000, .late_ns = 10'000'000}), kBucket, 10, 0.25);
  EXPECT_NEAR(result.wrong_bias, 5, 1e-9);
  EXPECT_NEAR(result.wrong_rms, 5, 1e-9);
}

TEST(Split, AShortfallIsExcusedOnlyWhileTheClientIsAbsent) {
  // 25 % requested, 20 % held, client away for a tenth of the time: 2.5 points are the client's, 2.5 the gate's.
  const Accuracy result = accuracy(constant(100, {.held_ns = 2'000'000, .idle_ns = 1'000'000}), kBucket, 10, 0.25);
  EXPECT_NEAR(result.bias, -5, 1e-9);
  EXPECT_NEAR(result.wrong_bias, -2.5, 1e-9);
}

TEST(Split, AnAbsentClientExcusesAtMostTheShortfall) {
  const Accuracy result = accuracy(constant(10, {.held_ns = 2'400'000, .idle_ns = 10'000'000}), kBucket, 10, 0.25);
  EXPECT_NEAR(result.wrong_bias, 0, 1e-9);
}

TEST(Split, OppositeErrorsShowInShortWindows) {
  std::vector<Bucket> buckets;
  for (int i = 0; i < 100; ++i) {
    buckets.push_back({.held_ns = i % 20 < 10 ? 5'000'000 : 0});
  }
  EXPECT_NEAR(accuracy(buckets, kBucket, 100, 0.25).rms, 0, 1e-9);
  EXPECT_NEAR(accuracy(buckets, kBucket, 10, 0.25).rms, 25, 1e-9);
  EXPECT_NEAR(accuracy(buckets, kBucket, 10, 0.25).bias, 0, 1e-9);
}

TEST(Split, ATenantMayUseWhatAnotherDoesNotRequest) {
  const auto wrong =
      wrong_parts({constant(100, {.held_ns = 4'000'000, .idle_ns = 2'000'000}), constant(100, {.held_ns = 6'000'000})},
                  kBucket, {50, 50});
  EXPECT_NEAR(wrong[0], 0, 1e-9);
  EXPECT_NEAR(wrong[1], 0, 1e-9);
}

TEST(Split, TakingFromAnotherTenantIsAnErrorForBoth) {
  const auto wrong =
      wrong_parts({constant(100, {.held_ns = 4'000'000}), constant(100, {.held_ns = 6'000'000})}, kBucket, {50, 50});
  EXPECT_NEAR(wrong[0], -10, 1e-9);
  EXPECT_NEAR(wrong[1], 10, 1e-9);
}

TEST(Split, AGpuThatNoTenantMayUseIsAnErrorForAll) {
  const auto wrong =
      wrong_parts({constant(100, {.held_ns = 4'500'000}), constant(100, {.held_ns = 4'500'000})}, kBucket, {50, 50});
  EXPECT_NEAR(wrong[0], -5, 1e-9);
  EXPECT_NEAR(wrong[1], -5, 1e-9);
}

// Returns the environment of a process under another limiter, as NAME=VALUE.
std::vector<std::string> environment_of(const Candidate& candidate, Limits limits) {
  Setting setting;
  setting.directory = "/scratch";
  std::vector<std::string> result;
  for (const auto& [name, value] : child_of(setting, candidate, "/driver", "case7", limits, {"/bin/true"}).environment)
    result.push_back(name + "=" + value);
  return result;
}

TEST(Candidate, APeerGetsItsLimitsAndItsOwnDirectory) {
  const auto peer = parse_candidate("theirs=/bin/true,MEM={bytes},SM={percent},CACHE={dir}/cache,PLAIN=1");
  ASSERT_TRUE(peer) << peer.error().message;
  const auto has = [](const std::vector<std::string>& all, const char* one) {
    return std::ranges::count(all, one) == 1;
  };
  const auto both = environment_of(*peer, {.percent = 25, .bytes = 1000});
  for (const char* expected : {"MEM=1000", "SM=25", "CACHE=/scratch/case7/run/cache", "PLAIN=1", "LD_PRELOAD=/bin/true",
                               "LD_LIBRARY_PATH=/driver"})
    EXPECT_TRUE(has(both, expected)) << expected;
  const auto memory_only = environment_of(*peer, {.bytes = 1000});
  EXPECT_TRUE(has(memory_only, "MEM=1000"));
  EXPECT_TRUE(std::ranges::none_of(memory_only, [](const std::string& each) { return each.starts_with("SM="); }))
      << "a limit of 0 % would be another case";
}

TEST(Candidate, AnUnreadableCandidateIsNamed) {
  for (const char* bad : {"theirs", "theirs=", "=/bin/true", "theirs=/bin/true,VAR"}) {
    const auto parsed = parse_candidate(bad);
    ASSERT_FALSE(parsed) << bad;
    EXPECT_NE(parsed.error().message.find(bad), std::string::npos) << parsed.error().message;
  }
  const auto missing = parse_candidate("theirs=/no/such.so");
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("/no/such.so"), std::string::npos) << missing.error().message;
}

TEST(Noise, StealIsTheDifferenceOfTwoReadings) {
  const CpuParts parts = cpu_parts("cpu  100 0 100 800 0 0 0 0 0 0", "cpu  150 0 120 900 10 0 0 20 0 0");
  EXPECT_NEAR(parts.steal_percent, 10, 1e-9);
  EXPECT_NEAR(parts.busy_percent, 45, 1e-9);
}

TEST(Noise, AMachineWithoutProcReportsSoInsteadOfZero) {
  EXPECT_EQ(cpu_parts("", "").steal_percent, -1);
  EXPECT_EQ(cpu_parts("cpu 1 2", "cpu 1 2").busy_percent, -1);
}

TEST(Noise, TheSamplerWakesUpAboutEachMillisecond) {
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
