#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "load/asking.hpp"
#include "load/histogram.hpp"
#include "load/options.hpp"

namespace headgate::load {
namespace {

TEST(Mix, TimesNeedAUnit) {
  EXPECT_DOUBLE_EQ(*parse_time_us("200us"), 200);
  EXPECT_DOUBLE_EQ(*parse_time_us("1.5ms"), 1500);
  EXPECT_DOUBLE_EQ(*parse_time_us("2s"), 2e6);
  EXPECT_DOUBLE_EQ(*parse_time_us("500ns"), 0.5);
  for (const char* bad : {"", "200", "us", "-1us", "nanus", "1e3us", "61s", "0us", "1 us", "us200"}) {
    const auto parsed = parse_time_us(bad);
    ASSERT_FALSE(parsed) << bad;
    EXPECT_EQ(parsed.error().code, ErrorCode::usage);
    EXPECT_NE(parsed.error().message.find(bad), std::string::npos);
  }
}

TEST(Mix, EveryFormIsReadAndAWrongOneNamed) {
  EXPECT_EQ(parse_mix("200us")->times_us, std::vector<double>{200});
  EXPECT_EQ(parse_mix("list:20us,1ms")->times_us, (std::vector<double>{20, 1000}));
  const auto mix = parse_mix("lognormal:100us,0.5,seed=9");
  ASSERT_TRUE(mix);
  EXPECT_EQ(mix->seed, 9u);
  EXPECT_DOUBLE_EQ(mix->sigma, 0.5);
  for (const char* bad : {"", "weibull:1us", "lognormal:100us", "lognormal:100us,9", "lognormal:100us,1,sed=1",
                          "list:", "list:20us,,1ms"}) {
    EXPECT_FALSE(parse_mix(bad)) << bad;
  }
}

TEST(Mix, OneSeedGivesTheSameKernelsAndTheStatedMedian) {
  const Mix mix = *parse_mix("lognormal:200us,1.0,seed=7");
  MixSource a(mix, 3), b(mix, 3), other(mix, 4);
  std::vector<double> drawn;
  bool differs = false;
  for (int i = 0; i < 20001; ++i) {
    drawn.push_back(a.next_us());
    EXPECT_EQ(drawn.back(), b.next_us());
    differs |= drawn.back() != other.next_us();
  }
  EXPECT_TRUE(differs);
  std::ranges::sort(drawn);
  EXPECT_NEAR(drawn[10000], 200, 10);
  // One sigma above the median.
  EXPECT_NEAR(drawn[16826], 200 * std::exp(1.0), 25);
}

TEST(Histogram, PercentilesAreWithinTwoPercent) {
  Histogram histogram;
  std::vector<std::uint64_t> times;
  std::uint64_t x = 1;
  for (int i = 0; i < 50000; ++i) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    times.push_back((x >> 40) * (1 + (x >> 60)));
    histogram.add(times.back());
  }
  std::ranges::sort(times);
  for (const double part : {0.01, 0.5, 0.9, 0.99, 0.999}) {
    const auto exact = static_cast<double>(times[static_cast<std::size_t>(part * 50000) - 1]);
    EXPECT_NEAR(static_cast<double>(histogram.percentile_ns(part)), exact, exact * 0.02 + 1);
  }
  EXPECT_EQ(histogram.max_ns(), times.back());
  EXPECT_EQ(histogram.percentile_ns(1.0), times.back());
}

TEST(Histogram, HugeTimesAreCountedNotLost) {
  Histogram histogram;
  histogram.add(~0ull);
  histogram.add(0);
  EXPECT_EQ(histogram.count(), 2u);
  EXPECT_EQ(histogram.max_ns(), ~0ull);
}

TEST(Options, AWrongOptionIsNamedWithItsValue) {
  const auto parsed = [](std::string_view word) { return parse_options(std::array{word}); };
  EXPECT_EQ(parsed("--threads=64")->threads, 64u);
  EXPECT_EQ(parsed("--sync=batch:32")->sync_launches, 32u);
  EXPECT_EQ(parsed("--mem=2MiB")->memory_bytes, 2u << 20);
  for (const std::string_view bad :
       {"--threads=0", "--threads=abc", "--threads", "threads=1", "--nothing=1", "--blocks=0", "--call=cuda",
        "--grow=1GiB", "--call=", "--sync=batch:0", "--sync=never", "--mem=12", "--mem=10%"}) {
    const auto result = parsed(bad);
    ASSERT_FALSE(result) << bad;
    EXPECT_EQ(result.error().code, ErrorCode::usage);
  }
}

TEST(Options, EveryKindOfLaunchHasAName) {
  for (const auto& [word, call] : {std::pair{"--call=plain", LaunchCall::plain},
                                   {"--call=ex", LaunchCall::extended},
                                   {"--call=cooperative", LaunchCall::cooperative},
                                   {"--call=chain", LaunchCall::chain}}) {
    EXPECT_EQ(parse_options(std::array{std::string_view(word)})->call, call) << word;
  }
  EXPECT_TRUE(parse_options(std::array{std::string_view("--per-thread")})->per_thread);
  EXPECT_FALSE(parse_options(std::array<std::string_view, 2>{"--per-thread", "--streams=2"}))
      << "each thread has one default stream";
}

TEST(Demand, TimeIsIdleOnlyWhileNoClientHasWork) {
  auto log = std::make_unique<AskingLog>();
  log->start(1'000'000'000);
  log->begin(1'000'000'000);
  log->begin(1'001'000'000);
  log->end(1'002'000'000);
  log->end(1'005'000'000);    // idle from here
  log->begin(1'013'000'000);  // to here: 5 ms in the first bucket, 3 ms in the second
  log->end(1'014'000'000);
  log->begin(1'014'010'000);  // 10 us is loop overhead
  log->end(1'016'000'000);
  log->finish(1'017'000'000);
  EXPECT_EQ(log->idle_ns(0), 5'000'000);
  EXPECT_EQ(log->idle_ns(1), 4'000'000);
  EXPECT_EQ(log->idle_ns(2), 0);
}

}  // namespace
}  // namespace headgate::load
