#include "power/request.hpp"

#include <gtest/gtest.h>

#include <random>

namespace headgate::power {
namespace {

const std::vector<GpuLimits> kTwo = {
    {.index = 0, .uuid = "GPU-a", .range = PowerRange{100'000, 350'000}, .default_mw = 350'000},
    {.index = 1, .uuid = "GPU-b", .range = PowerRange{200'000, 700'000}, .default_mw = 600'000},
};

TEST(Resolve, APercentageIsOfEachGpusGreatestLimit) {
  config::PowerSettings wanted;
  wanted.power_limit = config::parse_power_limit("80%");
  wanted.gpu_mhz = config::Range{210, 1200};
  const auto all = resolve(wanted, kTwo);
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->at("GPU-a").power_limit_mw, 280'000u);
  EXPECT_EQ(all->at("GPU-b").power_limit_mw, 560'000u);
  EXPECT_EQ(all->at("GPU-b").gpu_clocks, (ClockRange{210, 1200}));
  wanted.power_limit = config::parse_power_limit("default");
  EXPECT_EQ(resolve(wanted, kTwo)->at("GPU-b").power_limit_mw, 600'000u);
}

TEST(Resolve, ALimitOutOfOneGpusRangeIsRefusedWithTheRange) {
  config::PowerSettings wanted;
  for (const char* text : {"150W", "400W", "4000000W", "20%"}) {
    wanted.power_limit = config::parse_power_limit(text);
    const auto refused = resolve(wanted, kTwo);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, ErrorCode::usage);
    EXPECT_TRUE(refused.error().hint.starts_with("accepted: ")) << refused.error().hint;
  }
  wanted.power_limit = config::parse_power_limit("150W");
  EXPECT_EQ(resolve(wanted, kTwo).error().message, "GPU 1: power limit 150 W is out of range");
  EXPECT_EQ(resolve(wanted, kTwo).error().hint, "accepted: 200 W to 700 W");
  const std::vector<GpuLimits> mute = {{.index = 0, .uuid = "GPU-a", .range = {}, .default_mw = {}}};
  EXPECT_TRUE(resolve(wanted, mute)) << "the driver will say whether it takes it";
  wanted.power_limit = config::parse_power_limit("50%");
  EXPECT_EQ(resolve(wanted, mute).error().code, ErrorCode::unsupported);
}

TEST(Resolve, ABudgetIsSplitByWeightWithinEachRange) {
  const std::vector<BudgetPart> parts = {{1, {100, 350}}, {3, {100, 350}}};
  EXPECT_EQ(split_budget(400, parts), (std::vector<std::uint32_t>{100, 300}));
  EXPECT_EQ(split_budget(600, parts), (std::vector<std::uint32_t>{250, 350}))
      << "what one cannot take goes to the other";
  EXPECT_EQ(split_budget(240, parts), (std::vector<std::uint32_t>{100, 140})) << "none goes below its least limit";
  EXPECT_EQ(split_budget(900, parts), (std::vector<std::uint32_t>{350, 350}));
  EXPECT_FALSE(split_budget(199, parts));
  config::PowerSettings wanted;
  wanted.budget_mw = 600'000;
  wanted.weights = {1, 2};
  const auto all = resolve(wanted, kTwo);
  ASSERT_TRUE(all);
  EXPECT_EQ(all->at("GPU-a").power_limit_mw, 200'000u);
  EXPECT_EQ(all->at("GPU-b").power_limit_mw, 400'000u);
  wanted.weights = {1, 2, 3};
  EXPECT_FALSE(resolve(wanted, kTwo)) << "a weight without a GPU";
}

TEST(Resolve, NoSplitExceedsTheBudgetOrARange) {
  std::minstd_rand random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<BudgetPart> parts(1 + random() % 8);
    std::uint64_t least = 0, most = 0;
    for (BudgetPart& part : parts) {
      part.weight = static_cast<std::uint32_t>(1 + random() % 1000);
      part.range.min_mw = static_cast<std::uint32_t>(random() % 300'000);
      part.range.max_mw = part.range.min_mw + static_cast<std::uint32_t>(random() % 400'000);
      least += part.range.min_mw;
      most += part.range.max_mw;
    }
    const auto budget = static_cast<std::uint32_t>(least + random() % 1'000'000);
    const auto limits = split_budget(budget, parts);
    ASSERT_TRUE(limits);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      EXPECT_GE((*limits)[i], parts[i].range.min_mw);
      EXPECT_LE((*limits)[i], parts[i].range.max_mw);
      sum += (*limits)[i];
    }
    EXPECT_LE(sum, budget);
    EXPECT_GE(sum + parts.size(), std::min<std::uint64_t>(budget, most)) << "nothing but roundings is left over";
  }
}

}  // namespace
}  // namespace headgate::power
